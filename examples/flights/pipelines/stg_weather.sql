-- One row an airport and hour of local time. `make demo` shows what its check finds.
select
    origin,
    make_timestamp(year::int, month::int, day::int, hour::int, 0, 0)  as local_hour,
    time_hour                                                         as scheduled_hour,
    nullif(temp::varchar, 'NA')::double                               as temp_f,
    nullif(wind_speed::varchar, 'NA')::double                         as wind_mph,
    precip::double                                                    as rain_inches,
    visib::double                                                     as visibility_miles
from {{ source('nyc', 'weather') }}

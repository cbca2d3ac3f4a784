-- The raw table spells NULL as NA and keeps clock times as numbers like 517 for 05:17.
select
    make_date(year::int, month::int, day::int)  as flight_date,
    time_hour                                   as scheduled_hour,
    carrier,
    flight::int                                 as flight_no,
    nullif(tailnum::varchar, 'NA')              as tailnum,
    origin,
    dest,
    nullif(dep_delay::varchar, 'NA')::int       as dep_delay,
    nullif(arr_delay::varchar, 'NA')::int       as arr_delay,
    nullif(air_time::varchar, 'NA')::int        as air_minutes,
    distance::int                               as miles,
    nullif(dep_time::varchar, 'NA') is null     as cancelled
from {{ source('nyc', 'flights') }}

-- A view: it costs nothing until somebody reads it, and everything below reads it.
select
    f.*,
    a.name                                   as airline,
    p.manufacturer,
    p.model,
    p.seats,
    year(f.flight_date) - p.built            as plane_age,
    f.arr_delay > {{ var('late_minutes') }}  as late
from {{ ref('stg_flights') }} as f
left join {{ source('nyc', 'airlines') }} as a on a.carrier = f.carrier
left join {{ ref('stg_planes') }} as p on p.tailnum = f.tailnum

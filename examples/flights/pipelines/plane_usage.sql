-- Merge: run it again and each plane keeps its one row.
INSERT INTO {{ sink('mart', 'plane_usage', strategy: 'merge', keys: ['tailnum']) }}
select
    tailnum,
    any_value(manufacturer)     as manufacturer,
    any_value(model)            as model,
    max(plane_age)              as age,
    count(*)                    as flights,
    sum(air_minutes)::bigint    as air_minutes
from {{ ref('flights_enriched') }}
where tailnum is not null and not cancelled
group by tailnum
having count(*) >= {{ var('min_flights') }}

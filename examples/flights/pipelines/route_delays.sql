INSERT INTO {{ sink('lake', 'route_delays', strategy: 'replace', format: 'csv') }}
select
    e.origin,
    e.dest,
    n.name                        as destination,
    count(*)                      as flights,
    round(avg(e.arr_delay), 2)    as avg_arr_delay,
    max(e.miles)                  as miles
from {{ ref('flights_enriched') }} as e
left join {{ ref('airport_names') }} as n on n.faa = e.dest
group by e.origin, e.dest, n.name
having count(*) >= {{ var('min_flights') }}
order by avg_arr_delay desc

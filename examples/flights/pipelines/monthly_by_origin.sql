INSERT INTO {{ sink('mart', 'monthly_by_origin', strategy: 'replace') }}
select
    origin,
    date_trunc('month', flight_date)::date  as month,
    count(*)                                as flights,
    count(*) filter (where cancelled)       as cancelled,
    round(avg(arr_delay), 2)                as avg_arr_delay
from {{ ref('flights_enriched') }}
group by all
order by all

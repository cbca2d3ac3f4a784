-- One query, two outputs: a table to query and a CSV to mail.
INSERT INTO [{{ sink('mart', 'carrier_delays', strategy: 'replace') }}, {{ sink('lake', 'carrier_delays', strategy: 'replace', format: 'csv') }}]
select
    carrier,
    any_value(airline)                            as airline,
    count(*)                                      as flights,
    count(*) filter (where cancelled)             as cancelled,
    round(avg(dep_delay), 2)                      as avg_dep_delay,
    round(avg(arr_delay), 2)                      as avg_arr_delay,
    round(100.0 * count(*) filter (where late) / count(arr_delay), 2)  as late_percent,
    timestamptz '{{ run_started_at }}'            as loaded_at
from {{ ref('flights_enriched') }}
group by carrier
order by late_percent desc

-- One query, two outputs: read back from the lake, the latest version of each order.
INSERT INTO [{{ sink('mart', 'mart.daily_revenue', strategy: 'replace') }}, {{ sink('lake', 'daily_revenue', strategy: 'replace', format: 'csv') }}]
with latest as (
    select * from {{ source('lake', 'orders') }}
    qualify row_number() over (partition by id order by updated_at desc) = 1
)
select
    ordered_at::date                                  as day,
    count(*) filter (where status <> 'cancelled')     as orders,
    sum(amount) filter (where status <> 'cancelled')  as revenue,
    count(*) filter (where status = 'cancelled')      as cancelled
from latest
group by all
order by day

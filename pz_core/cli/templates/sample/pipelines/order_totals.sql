-- One row a country, as a CSV file for people.
INSERT INTO {{ sink('lake', 'order_totals', strategy: 'replace', format: 'csv') }}
select country, count(*) as orders, sum(amount) as total
from {{ ref('orders_enriched') }}
group by country
order by country

-- Orders with the customer's name. Its checks are in configs/orders_enriched.yml.
INSERT INTO {{ sink('lake', 'orders_enriched', strategy: 'replace', format: 'parquet') }}
select o.order_id, o.ordered_on, o.amount, c.name as customer, c.country
from {{ ref('stg_orders') }} as o
join {{ source('shop', 'customers') }} as c on c.customer_id = o.customer_id

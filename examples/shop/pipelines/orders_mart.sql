-- The present: one row an order, the new version in the place of the old one.
INSERT INTO {{ sink('mart', 'mart.orders', strategy: 'merge', keys: ['id']) }}
select o.*, c.name as customer, c.country
from {{ ref('new_orders') }} as o
join {{ source('shop', 'public.customers') }} as c on c.id = o.customer_id

-- A step in between: it loads nothing and is there for others to build on.
select order_id, customer_id, amount, ordered_on
from {{ source('shop', 'orders') }}
where amount >= {{ var('min_amount') }}

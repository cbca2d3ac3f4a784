-- Only what changed since the last run; the watermark moves on when every output below has its rows.
select id, customer_id, status, amount, ordered_at, updated_at
from {{ source('shop', 'public.orders') }}
where updated_at > {{ watermark('shop', 'public.orders') }}

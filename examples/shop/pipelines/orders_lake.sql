-- The history: every version of an order, one object a run. A run that is repeated may add the same versions again,
-- which daily_revenue does not mind.
INSERT INTO {{ sink('lake', 'orders', strategy: 'append', format: 'parquet', duplicates: 'accept') }}
select * from {{ ref('new_orders') }}

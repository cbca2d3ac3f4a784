-- Reads only what is newer than the last run, and appends it.
--
-- {{ watermark('shop', 'orders') }} in a comparison is what makes the read incremental: it stands for the greatest
-- updated_at that an earlier run has delivered. The first run has none and reads everything.
--
-- A run that dies between the append and the note of how far it came delivers its rows again in the next one.
-- duplicates: 'accept' says that this is known and fine for a log.
INSERT INTO {{ sink('lake', 'order_log', strategy: 'append', duplicates: 'accept', format: 'parquet') }}
select order_id, amount, updated_at
from {{ source('shop', 'orders', format: 'csv', columns: { order_id: 'bigint', amount: 'decimal(10,2)', updated_at: 'timestamp' }) }}
where updated_at > {{ watermark('shop', 'orders') }}

-- A second flow that shares nothing with the orders, so a bare "pz run" asks which one is meant.
-- How the file is read is said right here, at the call, instead of in connections.yml.
INSERT INTO {{ sink('lake', 'product_catalog', strategy: 'replace', format: 'parquet') }}
select sku, title, price
from {{ source('shop', 'products', format: 'csv', columns: { sku: 'varchar', title: 'varchar', price: 'decimal(10,2)' }) }}
where price is not null

INSERT INTO {{ sink('lake', 'flights', strategy: 'replace', format: 'parquet') }}
select * from {{ ref('flights_enriched') }}

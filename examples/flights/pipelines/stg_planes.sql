select
    tailnum,
    nullif(year::varchar, 'NA')::int   as built,
    manufacturer,
    model,
    engine,
    seats::int                         as seats
from {{ source('nyc', 'planes') }}

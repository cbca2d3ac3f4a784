-- Ephemeral: it becomes a CTE of the pipeline that uses it and leaves no table of its own.
select faa, name, tzone from {{ source('nyc', 'airports') }}

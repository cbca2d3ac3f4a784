-- What wind, rain and fog cost: the delay at departure by the weather of that hour.
INSERT INTO {{ sink('lake', 'weather_delays', strategy: 'replace', format: 'parquet') }}
select
    case
        when w.visibility_miles < 2 then 'fog'
        when w.rain_inches > 0 then 'rain'
        when w.wind_mph >= 20 then 'wind'
        else 'fair'
    end                             as weather,
    count(*)                        as flights,
    round(avg(f.dep_delay), 2)      as avg_dep_delay,
    round(100.0 * count(*) filter (where f.cancelled) / count(*), 2)  as cancelled_percent
from {{ ref('stg_flights') }} as f
join {{ ref('stg_weather') }} as w on w.origin = f.origin and w.scheduled_hour = f.scheduled_hour
group by weather
order by avg_dep_delay desc

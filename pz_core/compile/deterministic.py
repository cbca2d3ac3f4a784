"""Functions that give the same answer for the same arguments, whenever they are asked: those a bound may use.

A list of names and not a question to DuckDB's catalog: the catalog calls functions of time zones changing, and macros
such as ``ago`` nothing at all. Zones are no matter here, since every session's is UTC.
"""

from __future__ import annotations

# Operators are functions to DuckDB's parser.
_OPERATORS = "+ - * / // % ^ ** || & | << >> ~ @ ! ~~ !~~ ~~* !~~*"
_NUMBERS = """
    abs add subtract multiply divide fdiv fmod mod ceil ceiling floor round round_even roundbankers trunc sign sqrt cbrt
    power pow exp ln log log2 log10 gcd lcm greatest least greatest_common_divisor least_common_multiple bit_count even
    factorial gamma lgamma isnan isinf isfinite nextafter signbit
"""
_CHOICES = "nullif ifnull coalesce"
_TIMES = """
    date_trunc datetrunc date_add date_sub datesub date_diff datediff date_part datepart last_day monthname dayname
    year month day hour minute second millisecond microsecond nanosecond quarter week weekday weekofyear yearweek
    dayofmonth dayofweek dayofyear isodow isoyear decade century millennium era julian epoch epoch_ms epoch_us epoch_ns
    make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz to_timestamp
    to_millennia to_centuries to_decades to_years to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds
    to_milliseconds to_microseconds time_bucket strftime strptime try_strptime timezone timezone_hour timezone_minute
    normalized_interval
"""
_TEXTS = """
    lower upper lcase ucase trim ltrim rtrim left right lpad rpad substring substr length len concat concat_ws replace
    reverse repeat split_part string_split str_split format printf regexp_replace regexp_extract regexp_matches
    strip_accents chr ascii starts_with ends_with contains prefix suffix instr strpos position nfc_normalize to_base
    bin hex md5 sha256
"""

DETERMINISTIC: frozenset[str] = frozenset(" ".join((_OPERATORS, _NUMBERS, _CHOICES, _TIMES, _TEXTS)).split())

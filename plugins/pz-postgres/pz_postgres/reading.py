"""How each type is read: what the server is asked for, what a value must be, and what it becomes.

DuckDB's extension decodes PostgreSQL's binary form. Where it does that exactly, a column is taken as it is. Where it
does not (numeric, char, geometry and whatever it does not know), the server is asked for the text, and that is read
here. What DuckDB's type cannot hold at all stops the read (PZ0812) before a row is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.words import TextRules, declared_test
from pz_core.contract.refusals import refusal, trip
from pz_core.values import duckdb_type, quote_identifier, quote_literal
from pz_postgres.catalog import PgColumn

#: Types whose binary form DuckDB's extension decodes exactly.
BINARY: Mapping[str, str] = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bytea": "BLOB",
    "uuid": "UUID",
    "date": "DATE",
    "time": "TIME",
    "timetz": "TIME WITH TIME ZONE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL",
}
#: Types that an array of is decoded exactly, too, while it has one dimension.
ARRAYS = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "uuid", "date", "time"})
INSTANTS = frozenset({"timestamp", "timestamptz"})
_INSTANT_TYPES = frozenset(BINARY[base] for base in INSTANTS)
JSON = frozenset({"json", "jsonb"})
#: Beyond this instant a timestamp of PostgreSQL is none of DuckDB's, and its extension would wrap it.
_LATEST = "294247-01-10 04:00:54.775806"
#: A numeric without a scale is read as the contract's ``decimal``.
_DECIMAL = (38, 9)
_MOST_DIGITS = 38
_VALUE = "pz_v"


class Rule(Struct, frozen=True):
    """How one column is read.

    Args:
        name: of the column.
        server: what the server is asked for, over its own columns.
        landed: the value, over :data:`_VALUE`'s place in the scan: ``{}`` stands for it.
        type: DuckDB's type of the value.
        how: in words, for the run's results.
        wrong: a condition on the server that is true for a value that cannot be carried.
        told: what is then told.
    """

    name: str
    server: str
    landed: str
    type: str
    how: str
    wrong: str | None = None
    told: str = ""


def rule(column: PgColumn, version: int) -> Rule:
    """The rule of a column's type."""
    name, own = column.name, quote_identifier(column.name)
    shown = f"column '{name}' ({column.shown})"
    if column.array:
        return _array(column, own, shown)
    if column.kind == "b" and column.system:
        if column.base in ("numeric", "money"):
            return _numeric(column, own, shown)
        if column.base == "bpchar":
            # The extension drops the blanks that every other client shows; concat takes the type's own output.
            return Rule(name, _output(own), "{}", "VARCHAR", "text")
        if column.base == "oid":
            return Rule(name, f"{own}::pg_catalog.int8", "{}", "BIGINT", "as bigint")
        if column.base in JSON:
            return Rule(name, f"{own}::pg_catalog.text", "CAST({} AS JSON)", "JSON", "text")
        if column.base in BINARY:
            wrong, told = _limits(column, own, version)
            server = own if not column.domain else f"{own}::pg_catalog.{quote_identifier(column.base)}"
            return Rule(name, server, "{}", BINARY[column.base], "binary", wrong, f"{shown} {told}" if told else "")
    return Rule(name, _output(own), "{}", "VARCHAR", "text")


def _output(own: str) -> str:
    """The text that a type's own output makes; a cast to text is another function for some types."""
    return f"CASE WHEN {own} IS DISTINCT FROM NULL THEN pg_catalog.concat({own}) END"


def _limits(column: PgColumn, own: str, version: int) -> tuple[str | None, str]:
    if column.base in INSTANTS:
        kind = f"pg_catalog.{column.base}"
        return (
            f"{own} > '{_LATEST}'::{kind} AND {own} < 'infinity'::{kind}",
            f"holds an instant after {_LATEST}, which no timestamp of DuckDB is",
        )
    if column.base == "interval" and version >= 170000:
        return f"NOT pg_catalog.isfinite({own})", "holds an infinite interval, which DuckDB has not"
    return None, ""


def _array(column: PgColumn, own: str, shown: str) -> Rule:
    known = column.kind == "b" and column.system and not column.domain
    wrong = f"pg_catalog.array_ndims({own}) > 1 OR pg_catalog.array_lower({own}, 1) <> 1"
    told = f"{shown} holds an array of several dimensions, or one that does not begin at 1, which no list of DuckDB is"
    if known and column.base in INSTANTS:
        kind = f"pg_catalog.{column.base}"
        late = f"pz_u > '{_LATEST}'::{kind} AND pz_u < 'infinity'::{kind}"
        wrong += f" OR EXISTS (SELECT FROM pg_catalog.unnest({own}) AS pz_x(pz_u) WHERE {late})"
        told = f"{told}, or an instant after {_LATEST}"
    if known and column.base in ARRAYS | INSTANTS:
        kept = f"CASE WHEN {wrong} THEN NULL ELSE {own} END"
        return Rule(column.name, kept, "{}", f"{BINARY[column.base]}[]", "binary", wrong, told)
    if known and column.base == "numeric":
        texts = f"CASE WHEN {wrong} THEN NULL ELSE {own}::pg_catalog.text[] END"
        element = _numeric(column, own, shown)
        landed = f"list_transform({{}}, lambda pz_x: {element.landed.replace('{}', 'pz_x')})"
        return Rule(column.name, texts, landed, f"{element.type}[]", "text", wrong, told)
    return Rule(column.name, _output(own), "{}", "VARCHAR", "text")


def _numeric(column: PgColumn, own: str, shown: str) -> Rule:
    width, scale = precision(column)
    if column.base == "numeric" and scale == 0 and width > _MOST_DIGITS:
        return Rule(column.name, f"{own}::pg_catalog.text", _exact_hugeint(shown, column.name), "HUGEINT", "text")
    width, scale = min(width, _MOST_DIGITS), min(scale, _MOST_DIGITS)
    server = f"{own}::pg_catalog.numeric::pg_catalog.text" if column.base == "money" else f"{own}::pg_catalog.text"
    kind = f"DECIMAL({width},{scale})"
    return Rule(column.name, server, exact_decimal(width, scale, shown, column.name), kind, "text")


def precision(column: PgColumn) -> tuple[int, int]:
    """Width and scale that hold every value of a numeric; the contract's ``decimal`` where it says neither."""
    if column.modifier < 4:
        return _DECIMAL
    packed = column.modifier - 4
    width, scale = (packed >> 16) & 0xFFFF, packed & 0x7FF
    if scale >= 1024:
        scale -= 2048
    if scale < 0:
        width, scale = width - scale, 0
    return max(width, scale), scale


def exact_decimal(width: int, scale: int, shown: str, name: str) -> str:
    """A template that reads the text of a numeric as a DECIMAL, and refuses one that would change."""
    value, kind = "{}", f"DECIMAL({width},{scale})"
    digits = f"(NOT contains({value}, '.') OR length(rtrim({value}, '0')) - position('.' IN {value}) <= {scale})"
    stop = refusal(
        "PZ0812",
        quote_literal(f"{shown} holds a value that {kind} cannot hold exactly (NaN, infinite, or with more digits)"),
        quote_literal(f"declare '{name}' in columns: as varchar to read its text, or as a decimal(p,s) that holds it"),
    )
    return (
        f"CASE WHEN {value} IS NULL THEN NULL "
        f"WHEN {digits} AND TRY_CAST({value} AS {kind}) IS NOT NULL THEN CAST({value} AS {kind}) ELSE {stop} END"
    )


def _exact_hugeint(shown: str, name: str) -> str:
    stop = refusal(
        "PZ0812",
        quote_literal(f"{shown} holds a value that HUGEINT cannot hold (NaN, or beyond 127 bits)"),
        quote_literal(f"declare '{name}' in columns: as varchar to read its text"),
    )
    return "CASE WHEN {} IS NULL THEN NULL WHEN TRY_CAST({} AS HUGEINT) IS NOT NULL THEN CAST({} AS HUGEINT) " + (
        f"ELSE {stop} END"
    )


def declared(column: PgColumn, word: str, version: int) -> Rule:
    """The rule of a column under a contract: what the declared type cannot hold exactly stops the read.

    Args:
        column: of the place.
        word: type word of ``columns:``.
        version: of the server.
    """
    name, own = column.name, quote_identifier(column.name)
    natural = rule(column, version)
    if word == "varchar":
        plain = column.base in BINARY or column.base in ("numeric", "json", "jsonb")
        as_text = f"{own}::pg_catalog.text" if plain and not column.array and column.kind == "b" else _output(own)
        return Rule(name, as_text, "{}", "VARCHAR", "text")
    kind = duckdb_type(word)
    if natural.type == kind:
        return natural
    numeric = column.base in ("numeric", "money") and not column.array
    if numeric and kind.startswith("DECIMAL("):
        width, scale = (int(part) for part in kind[len("DECIMAL(") : -1].split(","))
        made = exact_decimal(width, scale, f"column '{name}' ({column.shown})", name)
        return Rule(name, natural.server, made, kind, "text")
    if numeric:
        natural = Rule(name, natural.server, "{}", "VARCHAR", "text")
    return Rule(
        name, natural.server, _declared(name, word, kind, natural), kind, natural.how, natural.wrong, natural.told
    )


def _declared(name: str, word: str, kind: str, natural: Rule) -> str:
    column = natural.landed
    value = f"TRY_CAST({column} AS {kind})"
    if natural.type == "VARCHAR":
        fits = declared_test(word, column, TextRules())
    else:
        same_text = f"CAST({value} AS VARCHAR) = CAST({column} AS VARCHAR)"
        whole = "true"
        if "INT" in natural.type:
            whole = f"TRY_CAST({value} AS HUGEINT) = TRY_CAST({column} AS HUGEINT)"
        fits = f"coalesce({same_text} OR ({value} = {column} AND {whole}), false)"
    stop = refusal(
        "PZ0812",
        quote_literal(f"column '{name}' holds a value that {word} cannot hold exactly, a {natural.type}"),
        quote_literal(f"declare '{name}' with the type that the table has, and convert it in the pipeline"),
    )
    return f"CASE WHEN {column} IS NULL THEN NULL WHEN {fits} THEN {value} ELSE {stop} END"


def told_forms(forms: Iterable[tuple[str, str]]) -> str:
    """For a run's results: in what form columns cross, said of those that are not binary.

    Args:
        forms: name and form of every column.
    """
    others = [f"{name} as {form.removeprefix('as ')}" for name, form in forms if form != "binary"]
    return f"binary, but {', '.join(others)}" if others else "binary"


def rules_of(
    columns: Sequence[PgColumn], version: int, contract: Mapping[str, str] | None, subject: str
) -> tuple[Rule, ...]:
    """The rules of a read, in the order of the contract where there is one.

    Raises:
        ConnectorError: PZ0353 naming every declared column that is not there.
    """
    if contract is None:
        return tuple(rule(column, version) for column in columns)
    exact = {c.name: c for c in columns}
    folded = {c.name.casefold(): c for c in columns}
    made: list[Rule] = []
    missing: list[str] = []
    for name, word in contract.items():
        column = exact.get(name) or folded.get(name.casefold())
        if column is None:
            missing.append(name)
        else:
            made.append(declared(column, word, version))
    if missing:
        raise ConnectorError(
            f"{subject}: declared columns are not there: {', '.join(missing)}",
            code="PZ0353",
            hint=f"correct columns:; there are {', '.join(c.name for c in columns)}",
        )
    return tuple(made)


def scan(rules: Sequence[Rule], relation: str, conditions: Sequence[str], alias: str) -> str:
    """The SELECT that DuckDB lands: names, types and values as the rules say.

    Args:
        rules: of the columns to read.
        relation: the table or the query in parentheses, for the server.
        conditions: for the server, all of which must hold.
        alias: unquoted name of the attached database.
    """
    asked = [f"{r.server} AS c{i}" for i, r in enumerate(rules)]
    guards = [(r.wrong, r.told) for r in rules if r.wrong is not None]
    if guards:
        cases = " ".join(f"WHEN {wrong} THEN {i}" for i, (wrong, _) in enumerate(guards, 1))
        asked.append(f"(CASE {cases} END)::pg_catalog.int2 AS bad")
    where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
    remote = f"SELECT {', '.join(asked)} FROM {relation} AS pz_rows{where}"
    landed = ", ".join(f"{r.landed.replace('{}', f'c{i}')} AS {quote_identifier(r.name)}" for i, r in enumerate(rules))
    made = f"SELECT {landed} FROM postgres_query({quote_literal(alias)}, {quote_literal(remote)})"
    if not guards:
        return made
    told = ", ".join(quote_literal(text) for _, text in guards)
    hint = quote_literal("declare the column in columns: as varchar to read its text, or leave such rows out")
    return f"{made} WHERE CASE WHEN bad IS NULL THEN true ELSE {refusal('PZ0812', f'[{told}][bad]', hint)} END"


def shared_scan(rules: Sequence[Rule], table: str) -> str | None:
    """The SELECT over the attached table itself, which the extension reads over several connections at once.

    It takes columns as they are. An instant that DuckDB cannot hold arrives wrapped, before all that PostgreSQL has, or
    as an infinity; so either stops this scan (:func:`~pz_core.contract.refusals.trip`), and :func:`scan` has to tell
    them from the ones that are meant.

    Args:
        rules: of the columns to read.
        table: quoted name of the table in the attached database.

    Returns:
        ``None`` if a column needs more.
    """
    tests = []
    for r in rules:
        own = quote_identifier(r.name)
        if (r.server, r.landed) != (own, "{}"):
            return None
        # The extension decodes by the types that it found first, and a table may have changed since, within one run.
        tests.append(f"typeof({own}) = {quote_literal(r.type)}")
        if r.type in _INSTANT_TYPES:
            earliest = f"{r.type} '4714-11-24 (BC) 00:00:00{'+00' if r.type.endswith('ZONE') else ''}'"
            tests.append(f"({own} IS NULL OR (isfinite({own}) AND {own} >= {earliest}))")
        elif r.wrong is not None:
            return None
    made = f"SELECT {', '.join(quote_identifier(r.name) for r in rules)} FROM {table}"
    return f"{made} WHERE CASE WHEN {' AND '.join(tests)} THEN true ELSE {trip()} END"

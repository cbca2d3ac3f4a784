"""How a batch is laid beside its target, column by column, so that every value arrives as it is or is refused.

DuckDB's extension writes PostgreSQL's binary form, which is exact for the types of :data:`_RAW`. Whatever it would
write in another way (HUGEINT, BIT, lists of texts and decimals) travels as text, and the server reads that. A target
type that DuckDB does not know (enum, inet, jsonb, tsvector, …) gets the text through its own input, and the text that
comes out again must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from pz_core.contract.connector import ConnectorError
from pz_core.contract.refusals import trip
from pz_core.values import Column, quote_identifier
from pz_postgres.catalog import PgColumn
from pz_postgres.reading import BINARY

RAW, STAGED, ORDER = "pz_raw", "pz_staged", "pz_order"
_EARLIEST = "4714-11-24 (BC) 00:00:00"
_LATEST_DAY = "5874897-12-31"
_MOST_DIGITS = 38
#: Width of a DECIMAL -> the longest fraction that is encoded exactly: in groups of four digits it must fit the integer
#: behind that width, and DuckDB's extension does not notice when it does not.
_MOST_FRACTION = ((4, 4), (9, 8), (18, 16), (38, 36))
_LONGEST_NAME = 63
#: DuckDB's type -> PostgreSQL's, whose binary form the extension writes exactly, and whose values are all there.
_RAW: dict[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "UTINYINT": "smallint",
    "INTEGER": "integer",
    "USMALLINT": "integer",
    "BIGINT": "bigint",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric(20,0)",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "JSON": "json",
    "BLOB": "bytea",
    "UUID": "uuid",
    "DATE": "date",
    "TIME": "time",
    "TIME WITH TIME ZONE": "timetz",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "INTERVAL": "interval",
}
#: PostgreSQL's type of a column -> DuckDB's whose binary form it reads.
_ENCODED: dict[str, str] = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "numeric(20,0)": "DECIMAL(20,0)",
    "text": "VARCHAR",
    "json": "VARCHAR",
}
#: Types that travel as text, and what the server makes of it.
_AS_TEXT: dict[str, str] = {"HUGEINT": "numeric", "UHUGEINT": "numeric", "BIT": "varbit"}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"(.*)\[\d*\]$")
#: Lists whose binary form the extension writes exactly.
_RAW_LISTS = frozenset({
    "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "UUID", "BLOB", "DATE", "TIME",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip
_LISTS_AS_TEXT = frozenset({"VARCHAR", "HUGEINT", "UBIGINT"})
#: PostgreSQL's types that take their values straight from the extension.
_STRAIGHT = frozenset(BINARY)


class Unfit(Struct, frozen=True):
    """A test that a value of the batch cannot be carried exactly.

    Args:
        column: its name in the batch.
        condition: in DuckDB's SQL over the batch; true for such a value.
        told: what is then told after the column's name.
    """

    column: str
    condition: str
    told: str


class Carried(Struct, frozen=True):
    """How one column is carried.

    Args:
        name: of the target's column.
        batch: of the batch's.
        select: expression of DuckDB over the batch.
        raw: PostgreSQL's type beside the target.
        read: expression of the server over that, where it is not the value itself; ``{}`` stands for the column.
        straight: whether the extension could write the target's column itself.
        how: in words.
        unfit: tests of the batch.
        proof: what must hold on the server afterwards, and what is told if it does not.
    """

    name: str
    batch: str
    select: str
    raw: str
    read: str | None = None
    straight: bool = True
    how: str = "binary"
    unfit: tuple[Unfit, ...] = ()
    proof: tuple[str, str] | None = None


def described(column: PgColumn) -> Column:
    """A target's column in DuckDB's types: what a batch must be to go into it."""
    return Column(column.name, _described(column), not column.needed)


def _described(column: PgColumn) -> str:
    if not column.system or column.kind != "b":
        return "VARCHAR"
    kind = BINARY.get(column.base)
    if column.array:
        return f"{_of_numeric(column)}[]" if column.base == "numeric" else f"{kind}[]" if kind else "VARCHAR"
    if column.base == "numeric":
        return _of_numeric(column)
    if column.base in ("json", "jsonb"):
        return "JSON"
    if column.base == "varbit" and column.modifier < 0:
        return "BIT"
    if column.base == "interval" and column.modifier >= 0:
        return f"INTERVAL ({column.shown})"  # one that leaves fields out
    return kind or "VARCHAR"


def _of_numeric(column: PgColumn) -> str:
    if column.modifier < 4:
        return "NUMERIC"
    packed = column.modifier - 4
    width, scale = (packed >> 16) & 0xFFFF, packed & 0x7FF
    return f"NUMERIC ({column.shown})" if scale >= 1024 or scale > width else f"DECIMAL({width},{scale})"


def carry(
    batch: Sequence[Column], columns: Sequence[Column], there: Sequence[PgColumn], subject: str
) -> tuple[Carried, ...]:
    """How each column that is written is carried.

    Args:
        batch: the batch's columns.
        columns: those to write, as the target has them.
        there: the target's columns as the catalog has them; none for a target that is made in this load.
        subject: for messages.

    Raises:
        ConnectorError: PZ0812 naming every column whose type PostgreSQL has no place for.
    """
    given = {c.name.casefold(): c for c in batch}
    known = {c.name: c for c in there}
    made: list[Carried] = []
    refused: list[str] = []
    for column in columns:
        own = given[column.name.casefold()]
        if len(column.name.encode("utf-8")) > _LONGEST_NAME:
            raise ConnectorError(
                f"{subject}: column '{column.name}' has a longer name than PostgreSQL keeps",
                code="PZ0812",
                hint="give it a shorter name in the pipeline",
            )
        plain = _plain(column.name, own)
        if plain is None:
            refused.append(f"'{own.name}' ({_short(own.type)})")
            continue
        target = known.get(column.name)
        made.append(plain if target is None else _into(plain, own, target))
    if refused:
        raise ConnectorError(
            f"{subject}: no type of PostgreSQL holds exactly what these columns are: {', '.join(refused)}",
            code="PZ0812",
            hint="take the parts of it that you need as columns, or cast it in the pipeline: to_json(…) makes it json",
        )
    return tuple(made)


def _plain(name: str, own: Column) -> Carried | None:
    """A column into a target of its own type."""
    quoted, kind = quote_identifier(own.name), own.type
    if kind.startswith("ENUM("):
        return Carried(
            name,
            own.name,
            f"CAST({quoted} AS VARCHAR)",
            "text",
            unfit=(_no_nul(own.name, f"CAST({quoted} AS VARCHAR)"),),
        )
    if kind in _RAW:
        select = quoted
        if kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
            select = f"CAST({quoted} AS TIMESTAMP)"
        return Carried(name, own.name, select, _RAW[kind], unfit=tuple(_limits(own, quoted)))
    if kind in _AS_TEXT:
        text = f"CAST({quoted} AS VARCHAR)"
        return Carried(name, own.name, text, "text", f"{{}}::{_AS_TEXT[kind]}", straight=False, how="text")
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        width, scale = int(decimal[1]), int(decimal[2])
        exact = f"numeric({width},{scale})"
        if scale > next(most for widest, most in _MOST_FRACTION if width <= widest):
            text = f"CAST({quoted} AS VARCHAR)"
            return Carried(name, own.name, text, "text", f"{{}}::{exact}", straight=False, how="text")
        return Carried(name, own.name, quoted, exact)
    return _list(name, own, quoted)


def _list(name: str, own: Column, quoted: str) -> Carried | None:
    found = _LIST.fullmatch(own.type)
    element = found[1] if found else ""
    if element in _RAW_LISTS:
        tests = []
        if element in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
            inner = Column(own.name, element)
            bad = [t.condition for t in _limits(inner, "pz_x")]
            anywhere = f"len(list_filter({quoted}, lambda pz_x: {' OR '.join(bad)})) > 0"
            tests.append(Unfit(own.name, f"coalesce({anywhere}, false)", f"holds a value that no {_RAW[element]} is"))
        return Carried(name, own.name, f"CAST({quoted} AS {element}[])", f"{_RAW[element]}[]", unfit=tuple(tests))
    decimal = _DECIMAL.fullmatch(element)
    if element not in _LISTS_AS_TEXT and not decimal:
        return None
    kind = f"numeric({decimal[1]},{decimal[2]})" if decimal else "text" if element == "VARCHAR" else "numeric"
    read = (
        "CASE WHEN {} IS NOT NULL THEN ARRAY(SELECT pz_e.pz_v::"
        + kind
        + " FROM pg_catalog.json_array_elements_text({}) "
        "WITH ORDINALITY AS pz_e(pz_v, pz_o) ORDER BY pz_e.pz_o) END"
    )
    text = f"CAST(to_json(CAST({quoted} AS VARCHAR[])) AS VARCHAR)"
    tests = [Unfit(own.name, f"contains({text}, '\\u0000')", "holds a NUL character, which PostgreSQL's text cannot")]
    select = f"CASE WHEN {quoted} IS NOT NULL THEN CAST({text} AS JSON) END"
    return Carried(name, own.name, select, "json", read, straight=False, how="text", unfit=tuple(tests))


def _limits(own: Column, value: str) -> list[Unfit]:
    """What of DuckDB's type PostgreSQL's cannot hold."""
    kind = own.type
    if kind in ("VARCHAR", "JSON"):
        return [_no_nul(own.name, value)]
    if kind.startswith("TIMESTAMP"):
        bound = "TIMESTAMPTZ" if kind.endswith("ZONE") else "TIMESTAMP"
        earliest = f"{bound} '{_EARLIEST}{'+00' if kind.endswith('ZONE') else ''}'"
        return [Unfit(own.name, f"(isfinite({value}) AND {value} < {earliest})", "holds an instant before 4714 BC")]
    if kind == "DATE":
        outside = f"({value} < DATE '4714-11-24 (BC)' OR {value} > DATE '{_LATEST_DAY}')"
        return [Unfit(own.name, f"(isfinite({value}) AND {outside})", "holds a day that PostgreSQL's date cannot")]
    return []


def _no_nul(name: str, value: str) -> Unfit:
    return Unfit(name, f"contains({value}, chr(0))", "holds a NUL character, which PostgreSQL's text cannot")


def _into(plain: Carried, own: Column, target: PgColumn) -> Carried:
    """A column into one that is there, whose type may say more than DuckDB's."""
    shape = _Shaped(plain, list(plain.unfit))
    quoted = plain.select
    if target.array or not target.system or target.kind != "b":
        return shape.by_input(target) if not target.array or own.type == "VARCHAR" else shape.assigned()
    if target.base in ("varchar", "bpchar") and target.modifier >= 4:
        length = target.modifier - 4
        text = quoted if target.base == "varchar" else f"rtrim({quoted}, ' ')"
        shape.refuse(own, f"length({text}) > {length}", f"holds a text of more than {length} characters")
    if target.base in ("timestamp", "timestamptz", "time", "timetz") and 0 <= target.modifier < 6:
        unit = 10 ** (6 - target.modifier)
        finite = f"isfinite({quoted}) AND " if target.base.startswith("timestamp") else ""
        micros = f"date_part('microseconds', {quoted})"
        shape.refuse(own, f"({finite}{micros} % {unit} <> 0)", f"holds a moment between those of {target.shown}")
    if target.base in _STRAIGHT:
        return shape.straight_if(target.base != "interval" or target.modifier < 0)
    if target.base == "numeric":
        decimal = _DECIMAL.fullmatch(_of_numeric(target))
        return shape.straight_if(decimal is not None and int(decimal[1]) <= _MOST_DIGITS)
    if target.base in ("json", "jsonb", "bpchar", "varbit") and (own.type != "VARCHAR" or target.base == "bpchar"):
        return shape.straight_if(target.base == "json" and own.type == "JSON")
    return shape.by_input(target)


class _Shaped(Struct):
    plain: Carried
    unfit: list[Unfit] = field(default_factory=list)

    def refuse(self, own: Column, condition: str, told: str) -> None:
        self.unfit.append(Unfit(own.name, f"coalesce({condition}, false)", told))

    def _made(self, **more: object) -> Carried:
        return replace(self.plain, unfit=tuple(self.unfit), **more)  # type: ignore[arg-type]

    def straight_if(self, can: bool) -> Carried:
        return self._made(straight=self.plain.straight and can)

    def assigned(self) -> Carried:
        return self._made(straight=False)

    def by_input(self, target: PgColumn) -> Carried:
        """Through the input of the target's type; what its output makes of it must be the text that came."""
        read = f"{{}}::{target.shown}"
        same = f"pg_catalog.concat(({read})) IS DISTINCT FROM pg_catalog.concat({{}})"
        proof = (same, f"holds a text that {target.shown} keeps in another form")
        return self._made(read=read, straight=False, how=f"text through {target.shown}", proof=proof)


def projected(
    carried: Sequence[Carried], order: str | None, target: Mapping[str, str], *, guarded: bool = False
) -> str:
    """The select list of DuckDB over the batch, every value in the very type that is encoded.

    Args:
        carried: the columns.
        order: expression that numbers the rows, ``None`` where they go straight into the target.
        target: the target's column -> its type in DuckDB, for those that go straight into one that is there.
        guarded: whether a value that cannot be carried stops the statement.
    """

    def value(c: Carried) -> str:
        kind = target.get(c.name) or _ENCODED.get(c.raw)
        made = f"CAST({c.select} AS {'VARCHAR' if kind == 'JSON' else kind})" if kind else c.select
        if guarded and c.unfit:
            made = f"CASE WHEN {' OR '.join(test.condition for test in c.unfit)} THEN {trip()} ELSE {made} END"
        return f"{made} AS {quote_identifier(c.name)}"

    fields = [*map(value, carried)]
    if order is not None:
        fields.append(f"CAST({order} AS BIGINT) AS {quote_identifier(ORDER)}")
    return ", ".join(fields)


def raw_table(carried: Sequence[Carried]) -> str:
    """The statement that makes the temporary table."""
    fields = [f"{quote_identifier(c.name)} {c.raw}" for c in carried]
    fields.append(f"{quote_identifier(ORDER)} bigint")
    return f"CREATE TEMPORARY TABLE {RAW} ({', '.join(fields)}) ON COMMIT DROP"


def staged_view(carried: Sequence[Carried]) -> str:
    """The statement that makes the relation that a program reads, with every value in the target's type."""

    def value(c: Carried) -> str:
        quoted = quote_identifier(c.name)
        return quoted if c.read is None else f"{c.read.replace('{}', quoted)} AS {quoted}"

    fields = [*map(value, carried), quote_identifier(ORDER)]
    return f"CREATE TEMPORARY VIEW {STAGED} AS SELECT {', '.join(fields)} FROM pg_temp.{RAW}"


def proofs(carried: Sequence[Carried]) -> tuple[tuple[str, str], ...]:
    """Queries of the server that count values which its types have changed."""
    made = []
    for c in carried:
        if c.proof is not None:
            quoted = quote_identifier(c.name)
            condition = c.proof[0].replace("{}", quoted)
            sql = f"SELECT count(*) FROM pg_temp.{RAW} WHERE {quoted} IS NOT NULL AND {condition}"
            made.append((sql, f"column '{c.batch}' {c.proof[1]}"))
    return tuple(made)


def _short(kind: str) -> str:
    return kind if len(kind) <= 60 else f"{kind[:57]}…"

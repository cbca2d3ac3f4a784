"""Rows as exact texts, and whether what arrived is what was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.testkit.corpus import memory_database
from pz_core.testkit.rules import Broken, require
from pz_core.values import Column, holds_exactly, quote_identifier

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_SHOWN = 80

Texts = tuple[str | None, ...]


class Rows(Struct, frozen=True):
    """Rows of a relation: every value as a text that no other value of its type has.

    Args:
        columns: as DuckDB describes them.
        texts: a tuple a row; ``None`` is NULL.
    """

    columns: tuple[Column, ...]
    texts: tuple[Texts, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(c.name for c in self.columns)

    def __len__(self) -> int:
        return len(self.texts)

    def column(self, name: str) -> tuple[str | None, ...]:
        """Texts of one column."""
        place = self.names.index(name)
        return tuple(row[place] for row in self.texts)

    def only(self, names: Iterable[str]) -> Rows:
        """Some columns, in the order asked for.

        Raises:
            Broken: if one is not there.
        """
        places = []
        for name in names:
            require(name in self.names, f"column '{name}' did not arrive; columns are {', '.join(self.names)}")
            places.append(self.names.index(name))
        return Rows(tuple(self.columns[p] for p in places), tuple(tuple(r[p] for p in places) for r in self.texts))


def read_rows(database: duckdb.DuckDBPyConnection, relation: str) -> Rows:
    """Rows of a relation or of a query in parentheses."""
    columns = described(database, relation)
    if not columns:
        return Rows((), ())
    fields = ", ".join(exact_text(c) for c in columns)
    found = database.execute(f"SELECT {fields} FROM {relation}").fetchall()
    return Rows(columns, tuple(tuple(row) for row in found))


def described(database: duckdb.DuckDBPyConnection, relation: str) -> tuple[Column, ...]:
    """Columns of a relation or of a query in parentheses."""
    return tuple(Column(r[0], r[1]) for r in database.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall())


def exact_text(column: Column, kind: str | None = None) -> str:
    """The expression that spells a column's values.

    Args:
        column: of the relation.
        kind: DuckDB type that the value is brought to before.
    """
    name = quote_identifier(column.name)
    value = name if kind is None else f"TRY_CAST({name} AS {kind})"
    return _spelled(value, kind or column.type)


def _spelled(value: str, kind: str) -> str:
    if kind == "BLOB":
        return f"hex({value})"
    if is_nested(kind):
        return f"CASE WHEN {value} IS NOT NULL THEN CAST(to_json({value}) AS VARCHAR) END"
    return f"CAST({value} AS VARCHAR)"


def is_nested(kind: str) -> bool:
    """Whether a DuckDB type is a list, an array, a struct, a map or a union."""
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP(", "UNION("))


class Sent:
    """Rows that were sent somewhere, to be compared with what arrived.

    Args:
        table: the rows.
        returns_as: DuckDB type that was sent -> the one that it comes back as, where the place has no such type.
    """

    def __init__(self, table: pa.Table, returns_as: Mapping[str, str] | None = None) -> None:
        self.table = table
        self._returns_as = dict(returns_as or {})

    @property
    def rows(self) -> Rows:
        """As they were sent."""
        with memory_database() as database:
            database.register("sent", self.table)
            return read_rows(database, "sent")

    def must_be(self, arrived: Rows, *, ordered: bool = False, what: str = "what arrived") -> None:
        """Compare.

        Args:
            arrived: what a place gave back.
            ordered: whether the order of rows matters.
            what: how messages call it.

        Raises:
            Broken: naming the first column or row that differs.
        """
        with memory_database() as database:
            database.register("sent", self.table)
            columns = described(database, "sent")
            require(
                tuple(c.name for c in columns) == arrived.names,
                f"{what} has columns {', '.join(arrived.names)}; sent were {', '.join(c.name for c in columns)}",
            )
            kinds = [self._fitting(own, theirs, what) for own, theirs in zip(columns, arrived.columns, strict=True)]
            fields = ", ".join(exact_text(c, kind) for c, kind in zip(columns, kinds, strict=True))
            texts = [tuple(r) for r in database.execute(f"SELECT {fields} FROM sent").fetchall()]
            for own, kind in zip(columns, kinds, strict=True):
                if kind is not None:
                    _refuse_lossy(database, own, kind, what)
        same_rows(Rows(arrived.columns, tuple(texts)), arrived, ordered=ordered, what=what)

    def _fitting(self, sent: Column, arrived: Column, what: str) -> str | None:
        """The type to bring a sent column to, ``None`` for its own."""
        if sent.type == arrived.type:
            return None
        other = self._returns_as.get(sent.type) or self._returns_as.get(sent.type.partition("(")[0])
        require(
            (other is not None and other == arrived.type) or holds_exactly(arrived.type, sent.type),
            f"{what}: column '{sent.name}' was sent as {sent.type} and is {arrived.type} now; if that is how the place "
            "has it, say so in returns_as",
        )
        return arrived.type


def _refuse_lossy(database: duckdb.DuckDBPyConnection, column: Column, kind: str, what: str) -> None:
    """A value that the type cannot hold must have been refused, not brought into it."""
    name = quote_identifier(column.name)
    own, back = exact_text(column), _spelled(f"TRY_CAST(TRY_CAST({name} AS {kind}) AS {column.type})", column.type)
    [count] = database.execute(f"SELECT count(*) FROM sent WHERE {own} IS DISTINCT FROM {back}").fetchall()[0]
    require(
        not count or column.type == "JSON",
        f"{what}: column '{column.name}' holds {count} values of {column.type} that {kind} cannot hold: the load had "
        "to fail with PZ0812",
    )


def same_rows(wanted: Rows, arrived: Rows, *, ordered: bool = False, what: str = "what arrived") -> None:
    """Compare rows as texts; JSON by its meaning.

    Raises:
        Broken: naming the first row that differs.
    """
    kinds = [c.type for c in arrived.columns]
    one, two = _meant(wanted.texts, kinds), _meant(arrived.texts, kinds)
    if ordered:
        require(len(one) == len(two), f"{what}: {len(two)} rows instead of {len(one)}")
        for place, (a, b) in enumerate(zip(one, two, strict=True), start=1):
            require(a == b, f"{what}: row {place} is {_shown(b)} instead of {_shown(a)}")
        return
    missing, extra = Counter(one) - Counter(two), Counter(two) - Counter(one)
    if missing or extra:
        told = [f"{len(two)} rows arrived, {len(one)} were due"]
        if missing:
            told.append(f"missing {_shown(next(iter(missing)))}")
        if extra:
            told.append(f"not due {_shown(next(iter(extra)))}")
        raise Broken(f"{what}: {'; '.join(told)}")


def _meant(texts: Sequence[Texts], kinds: Sequence[str]) -> list[Texts]:
    places = [n for n, kind in enumerate(kinds) if kind == "JSON"]
    if not places:
        return list(texts)
    return [tuple(_json(v) if n in places and v is not None else v for n, v in enumerate(row)) for row in texts]


def _json(text: str) -> str:
    def pairs(items: list[tuple[str, Any]]) -> tuple[Any, ...]:
        return ("object", *sorted(((k, repr(v)) for k, v in items)))

    try:
        return repr(json.loads(text, parse_float=Decimal, object_pairs_hook=pairs))
    except ValueError:
        return f"no JSON: {text}"


def _shown(row: Texts) -> str:
    parts = [
        "NULL" if v is None else repr(v if len(v) <= _SHOWN else f"{v[:_SHOWN]}… ({len(v)} characters)") for v in row
    ]
    return f"({', '.join(parts)})"

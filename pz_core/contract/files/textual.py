"""Typed columns out of sources in which every field is text: csv, tsv, and what JSON leaves open.

A sample proposes types. Then there are two ways. *Guarded*: the SELECT that lands the rows proves every value itself,
in one pass, and stops where one is not what the sample promised. *Settled*: one pass over all rows disposes first, so
that the SELECT can use plain casts; this is the way after a guard has tripped, and where rows are handed on before the
last one is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.guards import GuardedField, declared_guard, found_guard, guarded_select
from pz_core.contract.files.model import Connection, FileRead, ResolvedRead, SourceFile
from pz_core.contract.files.words import (
    CAST_KINDS,
    KINDS,
    Kind,
    TextRules,
    cast,
    cast_tests,
    declared_test,
    found_extras,
    found_test,
    found_type,
    naive_test,
)
from pz_core.values import duckdb_type, quote_identifier

_SAMPLE = 2_000
#: For columns whose first texts are all NULL.
_LONG_SAMPLE = 100_000
#: So many rows rule out what a column cannot be; DuckDB takes long over casts that fail.
_FEW = 64
#: So many columns are asked about in one query: the time that DuckDB takes to plan one grows with their square.
_AT_ONCE = 10
#: Found types that DuckDB's csv parser makes from plain text exactly as a cast does, only faster.
_DIRECT = frozenset({"BIGINT", "DOUBLE", "DATE", "TIMESTAMP"})


class ScanText(Protocol):
    """Builds the table function that reads files with the given column types."""

    def __call__(self, files: Sequence[SourceFile], types: dict[str, str], *, sample: bool = False) -> str:
        """SQL of the scan; one for a sample may fail at a record that is longer than most."""


class TextSource(Struct, frozen=True):
    """Files that are read by one scan.

    Args:
        columns: for every column of the read, the name of its field in the scan, ``None`` where these files lack it.
        all_columns: every field of the scan.
        files: the files.
        scan: builds the table function.
        headed: whether the first line of a file holds names.
        direct: whether the scan itself can make plain types.
    """

    columns: tuple[str | None, ...]
    all_columns: tuple[str, ...]
    files: tuple[SourceFile, ...]
    scan: ScanText
    headed: bool = True
    direct: bool = True


def found_columns(
    connection: Connection, names: Sequence[str], sources: Sequence[TextSource], rules: TextRules
) -> list[tuple[Kind, str]]:
    """Kind and DuckDB type of every column, true for every row.

    Args:
        connection: to read with.
        names: of the columns.
        sources: the files.
        rules: how numbers and NULL are spelled.
    """
    proposed = [kind for kind, _ in _propose(connection, names, sources, rules)]
    tested = [(i, found_test(kind, f"k{i}", rules)) for i, kind in enumerate(proposed) if kind not in (None, "varchar")]
    failed: list[int] = []
    if tested:
        parts = ", ".join(f"count(*) FILTER (NOT {test})" for _, test in tested)
        rows = _rows(sources, [i for i, _ in tested])
        counts = connection.execute(f"SELECT {parts} FROM {rows}").fetchall()[0]
        failed = [i for (i, _), count in zip(tested, counts, strict=True) if count]
    made: dict[int, tuple[Kind, str]] = {}
    again = sorted({*failed, *(i for i, kind in enumerate(proposed) if kind in (None, "decimal"))})
    if again:
        for i, (settled, type_name) in _settle(connection, again, sources, rules, None).items():
            made[i] = (settled or "varchar", type_name)
    return [
        made[i] if i in made else (kind or "varchar", found_type(kind or "varchar")) for i, kind in enumerate(proposed)
    ]


def _propose(
    connection: Connection, names: Sequence[str], sources: Sequence[TextSource], rules: TextRules
) -> list[tuple[Kind | None, str]]:
    """Kind and type that a sample suggests; ``None`` where it holds no value."""
    every = list(range(len(names)))
    found = _sampled(connection, every, sources, rules, _SAMPLE)
    unknown = [i for i in every if found[i][0] is None]
    found |= _sampled(connection, unknown, sources, rules, _LONG_SAMPLE)
    return [found[i] for i in every]


def _sampled(
    connection: Connection, indices: Sequence[int], sources: Sequence[TextSource], rules: TextRules, limit: int
) -> dict[int, tuple[Kind | None, str]]:
    """What :func:`_settle` says, of a sample and with few of its questions: casts rule out most kinds at once."""
    if not indices or not sources:
        return dict.fromkeys(indices, (None, "VARCHAR"))
    import duckdb

    make = "CREATE OR REPLACE TEMP TABLE pz_sample AS SELECT * FROM "
    try:
        connection.execute(make + _rows(sources, indices, limit, sample=True))
    except duckdb.Error:
        connection.execute(make + _rows(sources, indices, limit))
    made: dict[int, tuple[Kind | None, str]] = {}
    for start in range(0, len(indices), _AT_ONCE):
        made |= _judged(connection, indices[start : start + _AT_ONCE], rules)
    connection.execute("DROP TABLE temp.pz_sample")
    return made


def _judged(connection: Connection, indices: Sequence[int], rules: TextRules) -> dict[int, tuple[Kind | None, str]]:
    ask = "SELECT {} FROM pz_sample"
    counts = ", ".join(f"count({rules.text(f'k{i}')})" for i in indices)
    texts = connection.execute(ask.format(counts)).fetchall()[0]
    made: dict[int, tuple[Kind | None, str]] = {
        i: ("varchar" if count else None, "VARCHAR") for i, count in zip(indices, texts, strict=True)
    }
    filled = [i for i in indices if made[i][0]]
    if not filled:
        return made
    casts = ", ".join(f"count(*) FILTER (NOT {test})" for i in filled for test in cast_tests(f"k{i}", rules))
    few = f"(SELECT * FROM pz_sample WHERE {' OR '.join(f'k{i} IS NOT NULL' for i in filled)} LIMIT {_FEW})"
    answer = iter(connection.execute(f"SELECT {casts} FROM {few}").fetchall()[0])
    open_kinds: dict[int, list[Kind]] = {}
    for i in filled:
        ruled_out = {kind for kinds in CAST_KINDS for kind in (kinds if next(answer) else ())}
        open_kinds[i] = [kind for kind in KINDS if kind not in ruled_out]
    while asked := {i: kinds.pop(0) for i, kinds in open_kinds.items() if kinds and made[i][0] == "varchar"}:
        parts: list[str] = []
        for i, kind in asked.items():
            parts += [f"count(*) FILTER (NOT {found_test(kind, f'k{i}', rules)})"]
            parts += found_extras(f"k{i}", rules) if kind in ("double", "decimal") else ["1", "1", "0", "0"]
        answered = connection.execute(ask.format(", ".join(parts))).fetchall()[0]
        for at, (i, kind) in enumerate(asked.items()):
            bad, *extras = answered[5 * at : 5 * at + 5]
            made[i] = _chosen([bad], extras, (kind,))
    return made


def _settle(
    connection: Connection, indices: Sequence[int], sources: Sequence[TextSource], rules: TextRules, limit: int | None
) -> dict[int, tuple[Kind | None, str]]:
    """Ask every question about some columns, of a sample or of all rows."""
    if not indices:
        return {}
    parts: list[str] = []
    for i in indices:
        parts += [f"count(*) FILTER (NOT {found_test(kind, f'k{i}', rules)})" for kind in KINDS]
        parts += found_extras(f"k{i}", rules)
    rows = _rows(sources, indices, limit)
    answer = connection.execute(f"SELECT {', '.join(parts)} FROM {rows}").fetchall()[0]
    width = len(KINDS) + 4
    return {
        i: _chosen(answer[at * width : at * width + len(KINDS)], answer[at * width + len(KINDS) : (at + 1) * width])
        for at, i in enumerate(indices)
    }


def _chosen(bad: Sequence[int], extras: Sequence[int | None], kinds: Sequence[Kind] = KINDS) -> tuple[Kind | None, str]:
    texts, finite, whole, fraction = (value or 0 for value in extras)
    if not texts:
        return None, "VARCHAR"
    for kind, count in zip(kinds, bad, strict=True):
        if count:
            continue
        if kind == "double" and not finite:
            continue  # a column of nothing but "inf" or "nan" is a column of words
        if kind == "decimal" and whole + fraction > 38:
            continue
        return kind, found_type(kind, fraction)
    return "varchar", "VARCHAR"


def _rows(
    sources: Sequence[TextSource], indices: Sequence[int], limit: int | None = None, *, sample: bool = False
) -> str:
    selects = []
    for source in sources:
        fields = ", ".join(f"{_field(source, i)} AS k{i}" for i in indices)
        types = dict.fromkeys(source.all_columns, "VARCHAR")
        tail = f" LIMIT {limit}" if limit is not None else ""
        selects.append(f"(SELECT {fields} FROM {source.scan(source.files, types, sample=sample)}{tail})")
    return f"({' UNION ALL '.join(selects)}) AS pz_text"


def _field(source: TextSource, index: int) -> str:
    name = source.columns[index]
    return "CAST(NULL AS VARCHAR)" if name is None else quote_identifier(name)


def guarded_columns(
    connection: Connection, names: Sequence[str], sources: Sequence[TextSource], rules: TextRules
) -> ResolvedRead:
    """The rows of the sources with the types that a sample proposes, every value under guard.

    Args:
        connection: to read the sample with.
        names: of the columns.
        sources: the files; at least one.
        rules: how numbers and NULL are spelled.
    """
    proposed = _propose(connection, names, sources, rules)

    def guard(i: int, column: str) -> GuardedField:
        kind, type_name = proposed[i]
        return found_guard(kind, type_name, column, i, rules)

    return _guarded(tuple((name, proposed[i][1]) for i, name in enumerate(names)), sources, guard)


def guarded_contract(
    connection: Connection, contract: Mapping[str, str], sources: Sequence[TextSource], rules: TextRules
) -> ResolvedRead | None:
    """The rows of the sources with their declared types, every value under guard.

    Args:
        connection: to read a sample with, where instants leave open whether they have zones.
        contract: name -> type word, in the order of the sources' columns.
        sources: the files; at least one.
        rules: how numbers and NULL are spelled.

    Returns:
        ``None`` where the sample shows already that the contract cannot hold.
    """
    words = list(contract.items())
    zoned: dict[int, bool] = {}
    for i, (_, word) in enumerate(words):
        if word == "timestamptz":
            rows = _rows(sources, [i], _SAMPLE)
            naive = naive_test(f"k{i}", rules)
            answer = connection.execute(
                f"SELECT count(*) FILTER ({naive}), count(*) FILTER (NOT ({naive})) FROM {rows}"
            ).fetchall()[0]
            if answer[0] and answer[1]:
                return None
            zoned[i] = not answer[0]

    def guard(i: int, column: str) -> GuardedField:
        return declared_guard(words[i][1], column, i, rules, zoned.get(i))

    return _guarded(tuple((name, duckdb_type(word)) for name, word in words), sources, guard)


def _guarded(
    shape: tuple[tuple[str, str], ...], sources: Sequence[TextSource], guard: Callable[[int, str], GuardedField]
) -> ResolvedRead:
    selects = []
    for source in sources:
        fields = []
        for at, (name, kind) in enumerate(shape):
            lacking = source.columns[at] is None
            field = GuardedField((), f"CAST(NULL AS {kind})") if lacking else guard(at, _field(source, at))
            fields.append((name, field))
        types = dict.fromkeys(source.all_columns, "VARCHAR")
        selects.append(guarded_select(fields, source.scan(source.files, types)))
    return ResolvedRead(" UNION ALL ".join(selects), shape, guarded=True)


# --- declared types --------------------------------------------------------------------------------------------------


def prove_contract(
    connection: Connection, read: FileRead, contract: Mapping[str, str], sources: Sequence[TextSource], rules: TextRules
) -> None:
    """Check every value against its declared type.

    Args:
        connection: to read with.
        read: for messages.
        contract: name -> type word, in the order of the sources' columns.
        sources: the files.
        rules: how numbers and NULL are spelled.

    Raises:
        ConnectorError: PZ0812 with column, file, row and type of the first value that does not fit.
    """
    words = list(contract.items())
    tested = [(i, declared_test(word, f"k{i}", rules)) for i, (_, word) in enumerate(words) if word != "varchar"]
    zoned = [i for i, (_, word) in enumerate(words) if word == "timestamptz"]
    if not tested or not sources:
        return
    parts = [f"count(*) FILTER (NOT {test})" for _, test in tested]
    for i in zoned:
        naive = naive_test(f"k{i}", rules)
        parts += [f"count(*) FILTER ({naive})", f"count(*) FILTER (NOT ({naive}))"]
    rows = _rows(sources, [i for i, _ in tested])
    answer = connection.execute(f"SELECT {', '.join(parts)} FROM {rows}").fetchall()[0]
    for (i, test), count in zip(tested, answer, strict=False):
        if count:
            name, word = words[i]
            raise _misfit(connection, read, name, word, i, test, int(count), sources)
    for at, i in enumerate(zoned):
        naive_count, aware = answer[len(tested) + 2 * at : len(tested) + 2 * at + 2]
        if naive_count and aware:
            raise ConnectorError(
                f"{read.subject}: column '{words[i][0]}' has instants with ({aware}) and without ({naive_count}) zone",
                code="PZ0812",
                hint="give every value its zone, or declare the column varchar and convert it in the pipeline",
            )


def _misfit(
    connection: Connection,
    read: FileRead,
    name: str,
    word: str,
    index: int,
    test: str,
    count: int,
    sources: Sequence[TextSource],
) -> ConnectorError:
    place = _first_place(connection, index, test, sources)
    more = f", and {count - 1} more" if count > 1 else ""
    return ConnectorError(
        f"{read.subject}: column '{name}'{place} holds a text that is not exactly one value of {word}{more}",
        code="PZ0812",
        hint=f"correct the value, or declare '{name}' as varchar under columns: and convert it in the pipeline",
    )


def _first_place(connection: Connection, index: int, test: str, sources: Sequence[TextSource]) -> str:
    for source in sources:
        for file in source.files:
            types = dict.fromkeys(source.all_columns, "VARCHAR")
            fields = f"{_field(source, index)} AS k{index}, row_number() OVER () AS pz_row"
            rows = f"SELECT {fields} FROM {source.scan((file,), types)}"
            found = connection.execute(
                f"SELECT pz_row FROM ({rows}) AS pz_numbered WHERE NOT {test} ORDER BY pz_row LIMIT 1"
            ).fetchall()
            if found:
                return f", row {found[0][0]} of {file.shown},"
    return ""


# --- the select ------------------------------------------------------------------------------------------------------


def typed_select(
    columns: Sequence[tuple[str, str, str]],
    sources: Sequence[TextSource],
    rules: TextRules,
    *,
    found: bool,
) -> ResolvedRead:
    """The rows of the sources with their proven types.

    Args:
        columns: name, DuckDB type and word of every column.
        sources: the files; none gives no rows.
        rules: how numbers and NULL are spelled.
        found: whether the types were found, so that every text stands in its plain form.
    """
    shape = tuple((name, kind) for name, kind, _ in columns)
    if not sources:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quote_identifier(name)}" for name, kind in shape)
        return ResolvedRead(f"SELECT {nothing} WHERE false", shape)
    selects = []
    for source in sources:
        types = dict.fromkeys(source.all_columns, "VARCHAR")
        fields = []
        for at, (name, kind, word) in enumerate(columns):
            field = source.columns[at]
            if field is None:
                value = f"CAST(NULL AS {kind})"
            elif found and source.direct and rules.plain and kind in _DIRECT:
                types[field] = kind
                value = quote_identifier(field)
            else:
                value = cast(kind, word, quote_identifier(field), rules)
            fields.append(f"{value} AS {quote_identifier(name)}")
        selects.append(f"SELECT {', '.join(fields)} FROM {source.scan(source.files, types)}")
    return ResolvedRead(" UNION ALL ".join(selects), shape)


def contract_columns(contract: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, DuckDB type and word of every declared column."""
    return [(name, duckdb_type(word), word) for name, word in contract.items()]


__all__ = [
    "TextSource",
    "contract_columns",
    "found_columns",
    "guarded_columns",
    "guarded_contract",
    "prove_contract",
    "typed_select",
]

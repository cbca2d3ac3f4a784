"""Parquet: types are in the files; what DuckDB cannot hold, and what a contract would change, is refused."""

from __future__ import annotations

from collections.abc import Sequence

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.model import Connection, FileRead, ResolvedRead, SourceFile, file_list, names
from pz_core.values import duckdb_type, holds_exactly, quote_identifier


def parquet_scan(files: Sequence[SourceFile]) -> str:
    """The table function over parquet files."""
    return f"read_parquet({file_list(files)}, union_by_name=true, hive_partitioning=false, filename=false)"


def resolve_parquet(connection: Connection, read: FileRead, files: Sequence[SourceFile]) -> ResolvedRead:
    """Look at the footers and write the SELECT.

    Raises:
        ConnectorError: PZ0812 for a decimal of more than 38 digits or a value that a declared type cannot hold; PZ0353
            for a declared column that no file has, or a column whose types differ between files.
    """
    scan = parquet_scan(files)
    described = {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()}
    wanted = _wanted(read, files, described)
    _refuse_wide(connection, read, files, {source for _, source, _ in wanted})
    if len(files) > 1:
        _refuse_lossy_union(connection, read, files, {source: described[source] for _, source, _ in wanted})
    tests: list[tuple[str, str, str]] = []
    fields: list[str] = []
    for name, source, kind in wanted:
        column = quote_identifier(source)
        if kind == described[source]:
            fields.append(f"{column} AS {quote_identifier(name)}")
            continue
        if not holds_exactly(kind, described[source]):
            back = f"TRY_CAST(TRY_CAST({column} AS {kind}) AS {described[source]})"
            tests.append((name, kind, f"{column} IS NOT NULL AND {back} IS DISTINCT FROM {column}"))
        fields.append(f"CAST({column} AS {kind}) AS {quote_identifier(name)}")
    _prove(connection, read, scan, files, tests)
    return ResolvedRead(f"SELECT {', '.join(fields)} FROM {scan}", tuple((name, kind) for name, _, kind in wanted))


def _wanted(read: FileRead, files: Sequence[SourceFile], described: dict[str, str]) -> list[tuple[str, str, str]]:
    if read.columns is None:
        return [(name, name, kind) for name, kind in described.items()]
    folded = {name.casefold(): name for name in described}
    missing = [name for name in read.columns if name.casefold() not in folded]
    if missing:
        raise ConnectorError(
            f"{read.subject}: {files[0].shown} lacks the declared column {', '.join(repr(m) for m in missing)}; "
            f"it has {', '.join(repr(d) for d in described)}",
            code="PZ0353",
            hint="correct the names under columns:",
        )
    return [(name, folded[name.casefold()], duckdb_type(word)) for name, word in read.columns.items()]


def _refuse_wide(connection: Connection, read: FileRead, files: Sequence[SourceFile], wanted: set[str]) -> None:
    rows = connection.execute(
        f"SELECT name, precision, scale FROM parquet_schema({file_list(files)}) WHERE precision > 38"
    ).fetchall()
    for name, precision, scale in rows:
        if name in wanted or read.columns is None:
            raise ConnectorError(
                f"{read.subject}: column '{name}' is decimal({precision},{scale}) in {names(files)}; at most 38 fit",
                code="PZ0812",
                hint=f"write '{name}' with at most 38 digits or as text, or leave it out by declaring columns:",
            )


def _refuse_lossy_union(
    connection: Connection, read: FileRead, files: Sequence[SourceFile], wanted: dict[str, str]
) -> None:
    rows = connection.execute(
        f"SELECT name, list(DISTINCT duckdb_type ORDER BY duckdb_type) FROM parquet_schema({file_list(files)}) "
        "WHERE duckdb_type IS NOT NULL AND coalesce(num_children, 0) = 0 "
        "GROUP BY name HAVING count(DISTINCT duckdb_type) > 1"
    ).fetchall()
    for name, types in rows:
        kind = wanted.get(name)
        if kind is not None and not all(holds_exactly(kind, one) for one in types):
            raise ConnectorError(
                f"{read.subject}: column '{name}' is {' and '.join(types)} in different files, "
                "which no one type holds exactly",
                code="PZ0353",
                hint=f"read the files apart, or write '{name}' with one type",
            )


def _prove(
    connection: Connection,
    read: FileRead,
    scan: str,
    files: Sequence[SourceFile],
    tests: Sequence[tuple[str, str, str]],
) -> None:
    if not tests:
        return
    counts = connection.execute(
        f"SELECT {', '.join(f'count(*) FILTER ({test})' for _, _, test in tests)} FROM {scan}"
    ).fetchall()[0]
    for (name, kind, test), count in zip(tests, counts, strict=True):
        if count:
            place = ""
            for file in files:
                found = connection.execute(
                    f"SELECT file_row_number + 1 FROM read_parquet({file_list([file])}, file_row_number=true, "
                    f"hive_partitioning=false) WHERE {test} ORDER BY 1 LIMIT 1"
                ).fetchall()
                if found:
                    place = f", row {found[0][0]} of {file.shown},"
                    break
            raise ConnectorError(
                f"{read.subject}: column '{name}'{place} holds a value that {kind} cannot hold exactly",
                code="PZ0812",
                hint=f"declare '{name}' with the type that the file has, and convert it in the pipeline",
            )

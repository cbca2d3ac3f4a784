"""Reading files: the one place that says how a file becomes typed columns."""

from __future__ import annotations

from collections.abc import Sequence

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.delimited import csv_sources
from pz_core.contract.files.jsonlines import no_schema, resolve_json
from pz_core.contract.files.model import Connection, FileRead, ResolvedRead, SourceFile, bounded, reader_error
from pz_core.contract.files.parquet import resolve_parquet
from pz_core.contract.files.textual import (
    contract_columns,
    found_columns,
    guarded_columns,
    guarded_contract,
    prove_contract,
    typed_select,
)
from pz_core.contract.files.words import TextRules
from pz_core.values import duckdb_type, quote_identifier, quote_literal


def planned_query(read: FileRead, location: str) -> str:
    """A SELECT that can be written without a look at the files, for a plan. What is landed is :func:`resolve`'s.

    Args:
        read: what is asked for.
        location: path or glob, as DuckDB takes it.
    """
    place = quote_literal(location)
    if read.format == "parquet":
        scan = f"read_parquet({place}, union_by_name=true, hive_partitioning=false)"
    elif read.format == "json":
        scan = f"read_json({place}, sample_size=-1, union_by_name=true, hive_partitioning=false)"
    else:
        text = ", all_varchar=true" if read.columns is not None else ", sample_size=-1"
        scan = f"read_csv({place}, union_by_name=true, hive_partitioning=false, allow_quoted_nulls=false{text})"
    if read.columns is None:
        return bounded(f"SELECT * FROM {scan}", read.bounds)
    fields = ", ".join(
        f"CAST({quote_identifier(name)} AS {duckdb_type(word)}) AS {quote_identifier(name)}"
        for name, word in read.columns.items()
    )
    return bounded(f"SELECT {fields} FROM {scan}", read.bounds)


def resolve(
    connection: Connection, read: FileRead, files: Sequence[SourceFile], *, guarded: bool = False
) -> ResolvedRead:
    """Look at the files and write the SELECT that reads them exactly.

    Args:
        connection: a DuckDB connection of the caller's own, with time zone UTC.
        read: what is asked for.
        files: at least one; text formats with their ``head``.
        guarded: whether the caller lands all rows or none, and asks again without it if the SELECT fails. Then types
            may come from a sample, and the SELECT proves them. A bounded read is always proven, since a filter could
            keep rows from the guards.

    Raises:
        ConnectorError: the files cannot be read as asked; PZ0353 where names do not fit, PZ0812 where a value does not
            fit its type, naming column and row.
    """
    import duckdb

    if read.columns is None and read.format != "parquet" and all(file.empty for file in files):
        raise no_schema(read, files)
    try:
        made = _resolved(connection, read, files, guarded and not _is_bounded(read))
    except duckdb.Error as error:
        raise reader_error(error, read, files) from error
    _refuse_unknown_cursor(read, made)
    return ResolvedRead(bounded(made.query, read.bounds), made.columns, made.guarded)


def _resolved(connection: Connection, read: FileRead, files: Sequence[SourceFile], guarded: bool) -> ResolvedRead:
    if read.format == "parquet":
        return resolve_parquet(connection, read, files)
    if read.format == "json":
        return resolve_json(connection, read, files)
    rules = TextRules.of(read.options)
    wanted, sources = csv_sources(read, files)
    if guarded and sources:
        made = (
            guarded_columns(connection, wanted, sources, rules)
            if read.columns is None
            else guarded_contract(connection, read.columns, sources, rules)
        )
        if made is not None:
            return made
    if read.columns is not None:
        prove_contract(connection, read, read.columns, sources, rules)
        return typed_select(contract_columns(read.columns), sources, rules, found=False)
    kinds = found_columns(connection, wanted, sources, rules)
    columns = [(name, type_name, kind) for name, (kind, type_name) in zip(wanted, kinds, strict=True)]
    return typed_select(columns, sources, rules, found=True)


def _is_bounded(read: FileRead) -> bool:
    return read.bounds is not None and (read.bounds.lower is not None or read.bounds.upper is not None)


def _refuse_unknown_cursor(read: FileRead, made: ResolvedRead) -> None:
    if read.bounds is None or not _is_bounded(read):
        return
    cursor = read.bounds.cursor
    if cursor.casefold() not in {name.casefold() for name, _ in made.columns}:
        raise ConnectorError(
            f"{read.subject}: there is no column '{cursor}' to bound the read on; there are "
            + ", ".join(f"'{name}'" for name, _ in made.columns),
            hint="correct the cursor, or declare it under columns:",
        )

"""JSON: one object a line, or one array of objects. Nothing that DuckDB's sample would guess is taken on trust."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.model import (
    LONGEST_RECORD,
    Connection,
    FileRead,
    ResolvedRead,
    SourceFile,
    file_list,
    names,
)
from pz_core.contract.files.textual import TextSource, contract_columns, found_columns, prove_contract, typed_select
from pz_core.contract.files.words import Kind, TextRules
from pz_core.values import quote_identifier, quote_literal

_FORMATS = {"ndjson": "newline_delimited", "array": "array"}
_COMMON = f"maximum_object_size={LONGEST_RECORD}, ignore_errors=false, hive_partitioning=false, filename=false"
#: Types that DuckDB guesses from the look of a text, and numbers that may have lost digits: read as text and proven.
_OPEN = re.compile(r"DOUBLE|DATE|TIME|TIMESTAMP.*|UUID|HUGEINT|UBIGINT|TIME WITH TIME ZONE")
#: The same inside lists and objects, where texts stay texts.
_GUESSED_INSIDE = re.compile(r"\b(TIMESTAMP WITH TIME ZONE|TIMESTAMP(?:_[A-Z]+)?|DATE|TIME|UUID)\b(?=[\[\],)]|$)")
#: A number with a fraction or an exponent, long enough to lose digits in a double (false alarms are looked at again).
_LONG_NUMBER = r"[0-9.]{17,}|[0-9][eE][+-]?[0-9]{3}"


def resolve_json(connection: Connection, read: FileRead, files: Sequence[SourceFile]) -> ResolvedRead:
    """Look at JSON files and write the SELECT that reads them.

    Raises:
        ConnectorError: no records and no contract; PZ0812 for a number whose digits DuckDB's JSON reader does not keep;
            PZ0353 for keys that are one name in SQL.
    """
    kept = [file for file in files if not file.empty]
    try:
        groups = _by_layout(read, kept)
        _refuse_records(connection, read, groups)
    except RecursionError as error:
        raise ConnectorError(
            f"{read.subject}: {names(kept)} holds a record that is nested too deeply",
            hint="flatten the record in the source",
            cause=error,
        ) from error
    rules = TextRules()
    if read.columns is not None:
        sources = [_source(layout, members, tuple(read.columns)) for layout, members in groups]
        words = dict(read.columns)
        prove_contract(connection, read, words, sources, rules)
        return typed_select(contract_columns(words), sources, rules, found=False)
    return _inferred(connection, read, groups, rules)


def _inferred(
    connection: Connection, read: FileRead, groups: list[tuple[str, list[SourceFile]]], rules: TextRules
) -> ResolvedRead:
    columns: dict[str, list[str]] = {}
    for layout, members in groups:
        scan = (
            f"read_json({file_list(members)}, format={quote_literal(layout)}, records='auto', sample_size=-1, "
            f"maximum_depth=-1, map_inference_threshold=-1, union_by_name=true, {_COMMON})"
        )
        described = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        if len(described) == 1 and described[0][0] == "json":
            _refuse_no_objects(connection, read, layout, members)
        _refuse_case_clash(connection, read, layout, members, [row[0] for row in described])
        for name, kind, *_ in described:
            columns.setdefault(name, []).append(kind)
    keys = tuple(columns)
    folded: dict[str, str] = {}
    for name in keys:
        if folded.setdefault(name.casefold(), name) != name:
            raise _clash(read, [folded[name.casefold()], name])
    kinds = {name: _one_type(found) for name, found in columns.items()}
    open_at = [i for i, name in enumerate(keys) if kinds[name] is None]
    proven: dict[str, tuple[Kind, str]] = {}
    if open_at:
        narrowed = [_source(layout, members, tuple(keys[i] for i in open_at)) for layout, members in groups]
        found = found_columns(connection, [keys[i] for i in open_at], narrowed, rules)
        proven = {keys[i]: made for i, made in zip(open_at, found, strict=True)}
    made_columns: list[tuple[str, str, str]] = []
    for name in keys:
        kind = kinds[name]
        if kind is None:
            word, type_name = proven[name]
            made_columns.append((name, type_name, word))
        else:
            made_columns.append((name, kind, "native"))
    return _select(made_columns, groups)


def _one_type(found: list[str]) -> str | None:
    """The one safe type of a key, ``None`` where the texts must be looked at, JSON where layouts disagree."""
    types = {_GUESSED_INSIDE.sub("VARCHAR", kind) if _nested(kind) else kind for kind in found}
    if all(_OPEN.fullmatch(kind) for kind in types):
        return None
    if len(types) == 1:
        return types.pop()
    return None if all(_OPEN.fullmatch(kind) or kind in ("BIGINT", "VARCHAR") for kind in types) else "JSON"


def _nested(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))


def _select(columns: Sequence[tuple[str, str, str]], groups: list[tuple[str, list[SourceFile]]]) -> ResolvedRead:
    shape = tuple((name, kind) for name, kind, _ in columns)
    selects = []
    for layout, members in groups:
        types = {name: (kind if word == "native" else "VARCHAR") for name, kind, word in columns}
        fields = []
        for name, kind, word in columns:
            field = quote_identifier(name)
            plain = word in ("native", "varchar")
            fields.append(field if plain else f"CAST({field} AS {kind}) AS {field}")
        selects.append(f"SELECT {', '.join(fields)} FROM {_Scan(layout)(members, types)}")
    return ResolvedRead(" UNION ALL ".join(selects), shape)


def _by_layout(read: FileRead, files: Sequence[SourceFile]) -> list[tuple[str, list[SourceFile]]]:
    groups: dict[str, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(_layout(read.options, file), []).append(file)
    return list(groups.items())


def _layout(options: Mapping[str, Any], file: SourceFile) -> str:
    if "layout" in options:
        return _FORMATS[str(options["layout"])]
    head = file.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"["):
        return "array"
    line, newline, _ = head.partition(b"\n")
    if not newline and not file.whole:
        return "newline_delimited"
    try:
        json.loads(line)
    except ValueError:
        return "unstructured"  # an object that spans lines
    return "newline_delimited"


class _Scan(Struct, frozen=True):
    """Builds ``read_json`` for a layout. All that DuckDB could guess is said."""

    layout: str

    def __call__(self, files: Sequence[SourceFile], types: Mapping[str, str], *, sample: bool = False) -> str:
        columns = ", ".join(f"{quote_literal(name)}: {quote_literal(kind)}" for name, kind in types.items())
        return (
            f"read_json({file_list(files)}, columns={{{columns}}}, format={quote_literal(self.layout)}, "
            f"records='true', auto_detect=false, {_COMMON})"
        )


def _source(layout: str, files: Sequence[SourceFile], keys: tuple[str, ...]) -> TextSource:
    return TextSource(columns=keys, all_columns=keys, files=tuple(files), scan=_Scan(layout), direct=False)


def _objects(layout: str, files: Sequence[SourceFile]) -> str:
    return (
        f"read_json_objects({file_list(files)}, format={quote_literal(layout)}, "
        f"maximum_object_size={LONGEST_RECORD}, ignore_errors=false, hive_partitioning=false)"
    )


def _refuse_no_objects(connection: Connection, read: FileRead, layout: str, files: Sequence[SourceFile]) -> None:
    records, objects = connection.execute(
        f"SELECT count(*), count(*) FILTER (json_type(json) = 'OBJECT') FROM {_objects(layout, files)}"
    ).fetchall()[0]
    if records == 0:
        raise no_schema(read, files)
    if objects < records:
        raise ConnectorError(
            f"{read.subject}: {records - objects} of {records} records of {names(files)} are no JSON objects",
            hint="every record must be an object; set layout: to what the file is (ndjson or array)",
        )


def no_schema(read: FileRead, files: Sequence[SourceFile]) -> ConnectorError:
    """Nothing says what the columns are."""
    sizes = "has 0 bytes" if len(files) == 1 and files[0].whole and not files[0].head else "holds no records"
    return ConnectorError(
        f"{read.subject}: {names(files)} {sizes}, so its columns are not known",
        hint="declare them under columns:, then an empty file gives no rows",
    )


def _refuse_case_clash(
    connection: Connection, read: FileRead, layout: str, files: Sequence[SourceFile], described: Sequence[str]
) -> None:
    """DuckDB renames a key that differs from another by case only (``vat`` becomes ``vat_1``)."""
    folded = {name.casefold() for name in described}
    suspects = [name for name in described if (m := re.fullmatch(r"(.+)_\d+", name)) and m[1].casefold() in folded]
    nameless = any(re.fullmatch(r"C\d+", name) for name in described)  # what DuckDB makes of the key ""
    if any("\0" in name for name in described):
        raise ConnectorError(
            f"{read.subject}: a key of {names(files)} holds a NUL character",
            code="PZ0353",
            hint="correct the key in the source, or declare the keys that you need under columns:",
        )
    if not suspects and not nameless:
        return
    keys = [
        row[0]
        for row in connection.execute(
            f"SELECT DISTINCT unnest(json_keys(json)) FROM {_objects(layout, files)} ORDER BY 1"
        ).fetchall()
    ]
    if "" in keys:
        raise ConnectorError(
            f"{read.subject}: records of {names(files)} have a key without a name",
            code="PZ0353",
            hint="name it in the source, or declare the keys that you need under columns:",
        )
    spelled: dict[str, list[str]] = {}
    for key in keys:
        spelled.setdefault(key.casefold(), []).append(key)
    for same in spelled.values():
        if len(same) > 1:
            raise _clash(read, same)


def _clash(read: FileRead, same: Sequence[str]) -> ConnectorError:
    return ConnectorError(
        f"{read.subject}: the records have keys that are one name in SQL: {', '.join(repr(s) for s in same)}",
        code="PZ0353",
        hint="rename one of them in the source, or declare the one that you need under columns:",
    )


def _refuse_records(connection: Connection, read: FileRead, groups: list[tuple[str, list[SourceFile]]]) -> None:
    """Refuse what DuckDB's JSON reader would change without a word.

    A fraction with more digits than a double holds is cut, whatever its declared type; the record ``null`` becomes a
    row of NULLs.
    """
    for layout, members in groups:
        for file in members:
            numbered = f"SELECT json, row_number() OVER () AS pz_row FROM {_objects(layout, [file])}"
            suspects = connection.execute(
                f"SELECT pz_row, json FROM ({numbered}) AS pz_records "
                f"WHERE json IS NULL OR json = 'null' OR regexp_matches(json, {quote_literal(_LONG_NUMBER)})"
            ).fetchall()
            for row, text in suspects:
                if text is None or text == "null":
                    raise ConnectorError(
                        f"{read.subject}: record {row} of {file.shown} is null, not a JSON object",
                        hint="take the record out in the source, or make it an object",
                    )
                key = _lossy_key(text, read.columns)
                if key is not None:
                    raise ConnectorError(
                        f"{read.subject}: key '{key}', row {row} of {file.shown}, holds a number with more digits than "
                        "DuckDB's JSON reader keeps",
                        code="PZ0812",
                        hint=f"write '{key}' as a text in the source, in quotes, and declare it decimal under columns:",
                    )


class _Lossy(float):
    """A number whose digits a double does not keep."""


def _number(text: str) -> float:
    value = float(text)
    exact = value == value and value not in (float("inf"), float("-inf")) and Decimal(repr(value)) == Decimal(text)
    return value if exact else _Lossy(value)


def _lossy_key(text: str, columns: Mapping[str, str] | None) -> str | None:
    try:
        record = json.loads(text, parse_float=_number)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    return next((k for k, v in record.items() if (columns is None or k in columns) and _has_lossy(v)), None)


def _has_lossy(value: Any) -> bool:
    if isinstance(value, _Lossy):
        return True
    if isinstance(value, dict):
        return any(_has_lossy(v) for v in value.values())
    return isinstance(value, list) and any(_has_lossy(v) for v in value)

"""csv and tsv: headers are read by us, every field is text to DuckDB, and types are proven over all rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files.model import LONGEST_RECORD, FileRead, SourceFile, file_list
from pz_core.contract.files.textual import TextSource
from pz_core.values import quote_literal

_DELIMITERS = (",", ";", "\t", "|")
#: Bytes that DuckDB reads at a time and gives to one thread. Left to itself it takes sixteen times the longest record.
_BUFFER = 2 * LONGEST_RECORD
#: The same for a look at the first records: to fill the large buffer takes longer than to look.
_SAMPLE_RECORD = 1024 * 1024
_CODECS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "latin-1"}


class _Dialect(Struct, frozen=True):
    delimiter: str
    quote: str
    escape: str
    header: bool
    encoding: str


def csv_sources(read: FileRead, files: Sequence[SourceFile]) -> tuple[tuple[str, ...], list[TextSource]]:
    """The columns of the files and one text source for every group of files with one header.

    Files of zero bytes have no records and are left out.

    Raises:
        ConnectorError: PZ0353 where header and contract do not fit; a file that cannot be csv.
    """
    groups: dict[tuple[_Dialect, tuple[str, ...], int], list[SourceFile]] = {}
    columns: dict[str, str] = {}
    for file in files:
        if file.empty:
            continue
        dialect, header, width = _look(read, file)
        groups.setdefault((dialect, header, width), []).append(file)
        for name in header:
            columns.setdefault(name.casefold(), name)
    if read.columns is not None:
        wanted: tuple[str, ...] = tuple(read.columns)
    else:
        wanted = tuple(columns.values())
    return wanted, [
        _source(dialect, header, width, wanted, members) for (dialect, header, width), members in groups.items()
    ]


def _source(
    dialect: _Dialect, header: tuple[str, ...], width: int, wanted: tuple[str, ...], files: list[SourceFile]
) -> TextSource:
    place = {name.casefold(): f"c{i}" for i, name in enumerate(header)}
    return TextSource(
        columns=tuple(place.get(name.casefold()) for name in wanted),
        all_columns=tuple(f"c{i}" for i in range(width)),
        files=tuple(files),
        scan=_Scan(dialect),
        headed=dialect.header,
    )


class _Scan(Struct, frozen=True):
    """Builds ``read_csv`` for a dialect. All that DuckDB could guess is said."""

    dialect: _Dialect

    def __call__(self, files: Sequence[SourceFile], types: dict[str, str], *, sample: bool = False) -> str:
        d = self.dialect
        longest, buffer = (_SAMPLE_RECORD, 2 * _SAMPLE_RECORD) if sample else (LONGEST_RECORD, _BUFFER)
        columns = ", ".join(f"{quote_literal(name)}: {quote_literal(kind)}" for name, kind in types.items())
        return (
            f"read_csv({file_list(files)}, columns={{{columns}}}, auto_detect=false, header={str(d.header).lower()}, "
            f"delim={quote_literal(d.delimiter)}, quote={quote_literal(d.quote)}, escape={quote_literal(d.escape)}, "
            f"encoding={quote_literal(d.encoding)}, nullstr='', allow_quoted_nulls=false, strict_mode=true, "
            f"null_padding=false, ignore_errors=false, max_line_size={longest}, buffer_size={buffer}, "
            "hive_partitioning=false, union_by_name=false)"
        )


def _look(read: FileRead, file: SourceFile) -> tuple[_Dialect, tuple[str, ...], int]:
    options = read.options
    encoding = str(options.get("encoding", "utf-8"))
    quote = str(options.get("quote", '"'))
    escape = str(options.get("escape", quote))
    headed = bool(options.get("header", True))
    text = _decoded(file, encoding)
    if b"\r\r\n" in file.head:
        raise ConnectorError(
            f"{read.subject}: {file.shown} has lines that end in two carriage returns and a newline",
            hint="the file went twice through a line-end converter; write it again with plain line ends",
        )
    if read.format == "tsv":
        delimiter = "\t"
    elif "delimiter" in options:
        delimiter = str(options["delimiter"])
    else:
        delimiter = _found_delimiter(text, quote, escape)
    dialect = _Dialect(delimiter, quote, escape, headed, encoding)
    first = next(_records(text, delimiter, quote, escape), [])
    if not headed:
        return dialect, _positions(read, file, len(first)), len(first)
    _refuse_header(read, file, first)
    return dialect, tuple(first), len(first)


def _decoded(file: SourceFile, encoding: str) -> str:
    return file.head.decode(_CODECS.get(encoding, encoding), errors="replace")


def _records(text: str, delimiter: str, quote: str, escape: str) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_RECORD)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quotechar=quote,
        doublequote=escape == quote,
        escapechar=None if escape == quote else escape,
    )
    try:
        for record in reader:
            yield record or [""]
    except csv.Error:
        return


def _found_delimiter(text: str, quote: str, escape: str) -> str:
    """The comma where the first record has one, else the first other candidate that it has."""
    for candidate in _DELIMITERS:
        if len(next(_records(text, candidate, quote, escape), [])) > 1:
            return candidate
    return ","


def _positions(read: FileRead, file: SourceFile, width: int) -> tuple[str, ...]:
    if read.columns is None:
        return tuple(f"column{i}" for i in range(width))
    if width < len(read.columns):
        lacking = ", ".join(f"'{name}'" for name in list(read.columns)[width:])
        raise ConnectorError(
            f"{read.subject}: {file.shown} has {width} fields a record, the contract has {len(read.columns)} columns; "
            f"there is none for {lacking}",
            code="PZ0353",
            hint="columns: must list the fields in the order of the file when header: is false",
        )
    return tuple(read.columns)


def _refuse_header(read: FileRead, file: SourceFile, header: list[str]) -> None:
    spelled: dict[str, list[str]] = {}
    for name in header:
        spelled.setdefault(name.casefold(), []).append(name)
    contract = None if read.columns is None else {name.casefold() for name in read.columns}
    if contract is not None:
        missing = [name for name in read.columns or () if name.casefold() not in spelled]
        if missing:
            raise ConnectorError(
                f"{read.subject}: the header of {file.shown} lacks {', '.join(repr(m) for m in missing)}; "
                f"it has {', '.join(repr(h) for h in header)}",
                code="PZ0353",
                hint="correct the names in columns: or the file; without a header line set header: false",
            )
    for folded, same in spelled.items():
        if len(same) > 1 and (contract is None or folded in contract):
            raise ConnectorError(
                f"{read.subject}: the header of {file.shown} has names that are one name in SQL: "
                + ", ".join(repr(s) for s in same),
                code="PZ0353",
                hint="rename the columns in the file, or read it by position: header: false and columns:",
            )
        if contract is None and "\0" in folded:
            raise ConnectorError(
                f"{read.subject}: the name of column {header.index(same[0]) + 1} in the header of {file.shown} holds a "
                "NUL character",
                code="PZ0353",
                hint="correct the name in the file, or declare the columns that you need under columns:",
            )
        if contract is None and not folded.strip():
            raise ConnectorError(
                f"{read.subject}: column {header.index(same[0]) + 1} of {file.shown} has no name in the header",
                code="PZ0353",
                hint="name it in the file, or declare the columns that you need under columns:",
            )

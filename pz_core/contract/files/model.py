"""What a read of files is asked for, what is known of the files, and what comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from pz_core.contract.connector import ConnectorError, CursorBounds
from pz_core.contract.files.formats import Format
from pz_core.values import Value, quote_identifier, quote_literal
from pz_core.values.duckdb_text import clean_message, first_line, without_values

#: Longest record of a csv file and longest JSON value, in bytes.
LONGEST_RECORD = 16 * 1024 * 1024


class Connection(Protocol):
    """The part of a DuckDB connection that reading needs."""

    def execute(self, query: str) -> Any:
        """Run a statement; the answer has ``fetchall``."""


class FileRead(Struct, frozen=True):
    """One read of files.

    Args:
        subject: ``connection.entity``, for messages.
        format: of the files.
        options: read options as declared.
        columns: the contract, name -> type word; ``None`` without one.
        bounds: of an incremental read.
    """

    subject: str
    format: Format
    options: Mapping[str, Value] = field(default_factory=dict)
    columns: Mapping[str, str] | None = None
    bounds: CursorBounds | None = None


class SourceFile(Struct, frozen=True):
    """A file that exists.

    Args:
        path: as DuckDB opens it, without any escaping.
        shown: as messages name it, relative to the project.
        head: its first bytes, decompressed; for text formats only.
        whole: whether ``head`` is all of it.
    """

    path: str
    shown: str
    head: bytes = b""
    whole: bool = False

    @property
    def empty(self) -> bool:
        """Whether it holds nothing but white space and a byte order mark."""
        return self.whole and not self.head.lstrip(b"\xef\xbb\xbf\xff\xfe").strip(b" \t\r\n\0")


class ResolvedRead(Struct, frozen=True):
    """A SELECT over files that were looked at, which cannot change a value.

    Args:
        query: the SELECT.
        columns: name and DuckDB type of what it yields.
        guarded: whether types come from a sample and the SELECT stops where a value belies it; else they are proven.
    """

    query: str
    columns: tuple[tuple[str, str], ...]
    guarded: bool = False


def glob_escaped(path: str) -> str:
    """A path in which no character is a wildcard for DuckDB."""
    return re.sub(r"[*?\[]", lambda m: f"[{m[0]}]", path)


def file_list(files: Sequence[SourceFile]) -> str:
    """The files as the list that DuckDB's readers take."""
    return "[" + ", ".join(quote_literal(glob_escaped(f.path)) for f in files) + "]"


def names(files: Sequence[SourceFile]) -> str:
    """The files for a message: one by its name, many by the first and their number."""
    if len(files) == 1:
        return files[0].shown
    return f"{files[0].shown} and {len(files) - 1} more"


def bounded(query: str, bounds: CursorBounds | None) -> str:
    """The rows of a query within the bounds of an incremental read; a NULL cursor passes where there is no floor."""
    condition = bounds_condition(bounds)
    return query if condition is None else f"SELECT * FROM ({query}) AS pz_rows WHERE {condition}"


def bounds_condition(bounds: CursorBounds | None) -> str | None:
    """The bounds as a filter in DuckDB's SQL with typed literals, ``None`` if there are none."""
    if bounds is None or (bounds.lower is None and bounds.upper is None):
        return None
    column = quote_identifier(bounds.cursor)
    parts = []
    if bounds.lower is not None:
        parts.append(f"{column} {'>=' if bounds.lower_inclusive else '>'} {bound_literal(bounds.type, bounds.lower)}")
    if bounds.upper is not None:
        upper = f"{column} {'<=' if bounds.upper_inclusive else '<'} {bound_literal(bounds.type, bounds.upper)}"
        parts.append(upper if bounds.lower is not None else f"({upper} OR {column} IS NULL)")
    condition = " AND ".join(parts)
    return f"({condition} OR {column} IS NULL)" if bounds.with_nulls and bounds.lower is not None else condition


_BOUND_TYPES = {
    "int": "BIGINT",
    "bigint": "BIGINT",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
}


def bound_literal(word: str | None, text: str) -> str:
    """A bound's canonical text as a typed literal; a decimal keeps every digit that it has."""
    if word is not None and word.startswith("decimal"):
        digits = re.fullmatch(r"[+-]?(\d*)(?:\.(\d*))?", text)
        scale = len(digits[2] or "") if digits else 9
        return f"CAST({quote_literal(text)} AS DECIMAL(38,{min(scale, 38)}))"
    kind = _BOUND_TYPES.get(word or "")
    return quote_literal(text) if kind is None else f"CAST({quote_literal(text)} AS {kind})"


_LINE = re.compile(r"(?:CSV Error on )?Line: (\d+)")
_WIDTH = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_FILE = re.compile(r"^\s*file = (.+)$", re.MULTILINE)
_JSON_PLACE = re.compile(
    r'Malformed JSON in file "(?P<file>[^"\n]*)", (?P<place>at byte \d+ in \w+ \d+): (?P<why>[^.\n]*)'
)


def reader_error(error: Exception, read: FileRead, files: Sequence[SourceFile]) -> ConnectorError:
    """What DuckDB's reader met, in words that name file and place and show no value of the data."""
    text = str(error)
    shown = {f.path: f.shown for f in files} | {glob_escaped(f.path): f.shown for f in files}
    file = _FILE.search(text)
    place = shown.get(file[1].strip(), file[1].strip()) if file else names(files)
    line = _LINE.search(text)
    width = _WIDTH.search(text)
    malformed = _JSON_PLACE.search(text)
    if malformed:
        named = shown.get(malformed["file"], malformed["file"])
        what = f"{named} is not valid JSON {malformed['place']}: {malformed['why']}"
        hint = "correct the file, or set layout: to what it is (ndjson or array)"
    elif width and line:
        what = f"{place}, line {line[1]}: {width[2]} fields where {width[1]} are expected"
        hint = "correct the record; a delimiter inside a field needs quotes, or another delimiter: is meant"
    elif "unicode" in text.lower() or "utf-8" in text.lower():
        what = f"{place}{f', line {line[1]}' if line else ''}: the text is not {read.options.get('encoding', 'utf-8')}"
        hint = "set encoding: to that of the file (utf-8, utf-16 or latin-1)"
    elif "invalid state" in text:
        what = f"{place} cannot be parsed: it mixes line ends, or a quote stands where none may"
        hint = "write the file with one kind of line end, and double the quotes inside quoted fields"
    elif "Maximum line size" in text or "unterminated quote" in text.lower():
        at_line = f", line {line[1]}" if line else ""
        what = f"{place}{at_line}: a quote is never closed, or a record is longer than {LONGEST_RECORD >> 20} MiB"
        hint = "look for an unclosed quote"
    else:
        what = f"{place}: {first_line(without_values(clean_message(text))) or type(error).__name__}"
        hint = "check the file and the read options"
    return ConnectorError(f"{read.subject}: {what}", hint=hint, cause=error)

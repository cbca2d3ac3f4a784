"""The file formats that pz reads and writes, and the options that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pz_core.contract.options import Option
from pz_core.errors import PzError
from pz_core.values import Value

Format = Literal["csv", "tsv", "json", "parquet"]

FORMATS: tuple[Format, ...] = ("csv", "tsv", "json", "parquet")

_BY_ENDING: dict[str, Format] = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "json": "json",
    "ndjson": "json",
    "jsonl": "json",
    "parquet": "parquet",
    "pq": "parquet",
}
_COMPRESSED = ("gz", "zst")
_TEXT_COMPRESSION = ("none", "gzip", "zstd")
_PARQUET_COMPRESSION = ("snappy", "zstd", "gzip", "lz4_raw", "brotli", "uncompressed")

#: Options beside ``format`` and ``path`` that a format takes when it is read, and when it is written.
READ_OPTIONS: dict[Format, tuple[str, ...]] = {
    "csv": ("delimiter", "quote", "escape", "header", "encoding", "decimal", "thousands", "null_text"),
    "tsv": ("quote", "escape", "header", "encoding", "decimal", "thousands", "null_text"),
    "json": ("layout",),
    "parquet": (),
}
WRITE_OPTIONS: dict[Format, tuple[str, ...]] = {
    "csv": ("delimiter", "header", "compression"),
    "tsv": ("header", "compression"),
    "json": ("layout", "compression"),
    "parquet": ("compression",),
}

READ_FORMAT_OPTIONS: tuple[Option, ...] = (
    Option("delimiter", "string", "csv: the ASCII character between fields", default="found in the header: , ; tab |"),
    Option("quote", "string", "csv, tsv: the character around quoted fields", default='"'),
    Option("escape", "string", "csv, tsv: the character before a quote inside a quoted field", default='"'),
    Option("header", "boolean", "csv, tsv: whether the first record holds the column names", default="true"),
    Option("encoding", "string", "csv, tsv: of the text", default="utf-8", choices=("utf-8", "utf-16", "latin-1")),
    Option(
        "decimal", "string", "csv, tsv: the character before the fraction of a number", default=".", choices=(".", ",")
    ),
    Option("thousands", "string", "csv, tsv: the character between groups of three digits", default="none"),
    Option(
        "null_text", "any", "csv, tsv: a text, or a list of texts, that stands for NULL, quoted or not", default="none"
    ),
    Option("layout", "string", "json: one object a line, or one array", default="found", choices=("ndjson", "array")),
)
WRITE_FORMAT_OPTIONS: tuple[Option, ...] = (
    Option("delimiter", "string", "csv: the one ASCII character between fields", default=","),
    Option("header", "boolean", "csv, tsv: whether the first record holds the column names", default="true"),
    Option("layout", "string", "json: one object a line, or one array", default="ndjson", choices=("ndjson", "array")),
    Option("compression", "string", "of the file", default="snappy for parquet, none for the others"),
)


def format_of_path(path: str) -> Format | None:
    """The format that the ending of a path says, ``None`` if it says none; ``a.csv.gz`` is csv."""
    parts = path.lower().rsplit("/", 1)[-1].split(".")
    if len(parts) > 2 and parts[-1] in _COMPRESSED:
        parts.pop()
    return _BY_ENDING.get(parts[-1]) if len(parts) > 1 else None


def extension(file_format: Format, options: Mapping[str, Value]) -> str:
    """The ending of a written file, without the leading dot: ``csv``, ``csv.gz``, ``parquet``."""
    packed = {"gzip": ".gz", "zstd": ".zst"}.get(str(options.get("compression", "none")), "")
    return file_format if file_format == "parquet" else file_format + packed


def read_format(options: Mapping[str, Value], path: str | None, default: Format = "csv") -> str:
    """The format of a read as declared, even one that there is not, else by the path's ending, else ``default``."""
    if "format" in options:
        return str(options["format"])
    return (format_of_path(path) if path else None) or default


def format_faults(
    subject: str, file_format: str, options: Mapping[str, Value], side: Literal["read", "write"]
) -> list[PzError]:
    """Everything wrong with the format options of one read or write.

    Args:
        subject: ``connection.entity``, for the messages.
        file_format: the format in effect.
        options: what the user declared.
        side: which of the two.

    Returns:
        PZ0361 for a format that is not supported, PZ0362 for an option of another format or with a bad value.
    """
    table = READ_OPTIONS if side == "read" else WRITE_OPTIONS
    if file_format not in table:
        return [
            PzError(
                "PZ0361",
                f"{subject}: format '{file_format}' is not supported; supported are {', '.join(FORMATS)}",
                hint=f"set format: to one of {', '.join(FORMATS)}",
            )
        ]
    allowed = table[file_format]
    owned = {name for names in table.values() for name in names}
    found = [
        PzError(
            "PZ0362",
            f"{subject}: option '{name}' is not one of format {file_format}",
            hint=f"{file_format} takes {', '.join(allowed) or 'none'}; remove '{name}' or change format:",
        )
        for name in options
        if name in owned and name not in allowed
    ]
    for name, reason in _bad_values(file_format, options, side):
        if name in allowed:
            found.append(PzError("PZ0362", f"{subject}: option '{name}' {reason}", hint=f"correct '{name}'"))
    return found


def _bad_values(file_format: str, options: Mapping[str, Value], side: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name in ("delimiter", "quote", "escape", "thousands"):
        value = options.get(name)
        if value is None:
            continue
        text = str(value)
        if len(text) != 1 or not text.isascii() or text in "\r\n\0":
            found.append((name, "must be one ASCII character"))
    quote, delimiter = str(options.get("quote", '"')), options.get("delimiter")
    if delimiter is not None and str(delimiter) == quote:
        found.append(("delimiter", "must differ from quote"))
    if str(options.get("thousands", "")) == str(options.get("decimal", ".")):
        found.append(("thousands", "must differ from decimal"))
    if str(options.get("thousands", " ")) in "0123456789+-eE":
        found.append(("thousands", "must not be a character of a number"))
    compression = options.get("compression")
    allowed = _PARQUET_COMPRESSION if file_format == "parquet" else _TEXT_COMPRESSION
    if side == "write" and compression is not None and str(compression) not in allowed:
        found.append(("compression", f"must be one of {', '.join(allowed)} for {file_format}"))
    return found


def null_texts(options: Mapping[str, Value]) -> tuple[str, ...]:
    """The texts that stand for NULL beside the unquoted empty field."""
    value = options.get("null_text")
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(str(v) for v in value)
    return (str(value),)

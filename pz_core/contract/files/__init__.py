"""Files: how they become typed columns and how rows become files, as SQL text for DuckDB, for every connector of files.

A connector says where files are and hands over their first bytes; everything about formats is decided here.
"""

from __future__ import annotations

from pz_core.contract.files.calendar import covering_paths, has_calendar_tokens
from pz_core.contract.files.formats import (
    FORMATS,
    READ_FORMAT_OPTIONS,
    WRITE_FORMAT_OPTIONS,
    Format,
    extension,
    format_faults,
    format_of_path,
    read_format,
)
from pz_core.contract.files.model import (
    FileRead,
    ResolvedRead,
    SourceFile,
    bound_literal,
    bounds_condition,
    glob_escaped,
    reader_error,
)
from pz_core.contract.files.naming import file_stem, is_appended, written_name
from pz_core.contract.files.reading import planned_query, resolve
from pz_core.contract.files.source import FilesSource, FoundFiles
from pz_core.contract.files.spool import RowSpool, private_database
from pz_core.contract.files.writing import copy_options, copy_projection

#: How many first bytes of a text file :class:`SourceFile` wants in ``head``.
HEAD_BYTES = 262_144

__all__ = [
    "FORMATS",
    "HEAD_BYTES",
    "READ_FORMAT_OPTIONS",
    "WRITE_FORMAT_OPTIONS",
    "FileRead",
    "FilesSource",
    "Format",
    "FoundFiles",
    "ResolvedRead",
    "RowSpool",
    "SourceFile",
    "bound_literal",
    "bounds_condition",
    "copy_options",
    "copy_projection",
    "covering_paths",
    "extension",
    "file_stem",
    "format_faults",
    "format_of_path",
    "glob_escaped",
    "has_calendar_tokens",
    "is_appended",
    "planned_query",
    "private_database",
    "read_format",
    "reader_error",
    "resolve",
    "written_name",
]

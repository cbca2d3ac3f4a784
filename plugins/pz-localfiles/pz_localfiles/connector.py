"""The class behind ``connector: localfiles``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, cast

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import CheckReport, ConnectionConfig, ReadSpec, WriteSpec
from pz_core.contract.files import (
    READ_FORMAT_OPTIONS,
    WRITE_FORMAT_OPTIONS,
    Format,
    extension,
    file_stem,
    format_faults,
    read_format,
)
from pz_core.contract.options import Option, OptionSet, option_set
from pz_core.errors import PzError
from pz_localfiles.places import Places
from pz_localfiles.sink import FileSink
from pz_localfiles.source import FileSource

_FORMATS = "csv, tsv, json, parquet"


class LocalFiles:
    """Files in folders of this machine."""

    name: ClassVar[str] = "localfiles"
    testkit: ClassVar[str] = "pz_localfiles.kit:LocalFilesSuite"
    connection_options: ClassVar[OptionSet] = option_set(
        Option(
            "root",
            "string",
            "folder that relative paths start from; relative to the project, or absolute",
            default="the project",
        ),
    )
    read_options: ClassVar[OptionSet] = option_set(
        Option("format", "string", f"one of {_FORMATS}", default="by the ending of path, else csv"),
        Option("path", "string", "file, folder or glob, below root or absolute", default="<entity>.<format>"),
        *READ_FORMAT_OPTIONS,
    )
    write_options: ClassVar[OptionSet] = option_set(
        Option("format", "string", f"one of {_FORMATS}", default="parquet"),
        Option("path", "string", "folder, below root or absolute", default="<entity>/"),
        *WRITE_FORMAT_OPTIONS,
    )
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        native_read=True,
        universal_read=True,
        native_write=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        bounded_window=True,
        inclusive_bound=True,
        floor_pushdown=True,
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._connection = connection
        self._places = Places.of(connection)

    def validate(self) -> Sequence[PzError]:
        """Nothing of the connection depends on something else."""
        return ()

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """PZ0361, PZ0362 and PZ0365 of one read; only symbolic links are looked at."""
        subject = f"{self._connection.name}.{spec.entity}"
        path = spec.options.get("path")
        given = str(path) if path is not None else None
        file_format = read_format(spec.options, given)
        found = format_faults(subject, file_format, spec.options, "read")
        escape = self._places.escape(self._places.source(spec.entity, spec.options, file_format), given, subject)
        return [*found, escape] if escape else found

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """PZ0361, PZ0362 and PZ0365 of one write; only symbolic links are looked at."""
        subject = f"{self._connection.name}.{spec.entity}"
        path = spec.options.get("path")
        given = str(path) if path is not None else None
        found = format_faults(subject, str(spec.options.get("format", "parquet")), spec.options, "write")
        escape = self._places.escape(self._places.folder(spec.entity, spec.options), given, subject)
        return [*found, escape] if escape else found

    def write_place(self, spec: WriteSpec) -> str:
        """The files that a write makes and replaces: a folder, and how their names begin and end."""
        folder = os.path.realpath(self._places.folder(spec.entity, spec.options))
        ending = extension(cast(Format, spec.options.get("format", "parquet")), spec.options)
        return os.path.normcase(os.path.join(folder, f"{file_stem(spec.entity)}.{ending}"))  # noqa: PTH118

    def check(self) -> CheckReport:
        """Whether the root is a folder; one that does not exist is made by the first write."""
        root = self._places.root
        shown = self._places.shown(root)
        if root.is_dir():
            return CheckReport(True, f"folder {shown} is there")
        if root.exists():
            return CheckReport(False, f"{shown} is not a folder", "point root: at a folder")
        return CheckReport(True, f"folder {shown} is not there; a write will create it")

    def open_source(self) -> FileSource:
        """Open for reading; touches nothing."""
        return FileSource(self._connection.name, self._places)

    def open_sink(self) -> FileSink:
        """Open for writing; touches nothing."""
        return FileSink(self._connection.name, self._places)

"""The class behind ``connector: example``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pz_core.contract import (
    Capabilities,
    CheckReport,
    ConnectionConfig,
    ConnectorError,
    Option,
    OptionSet,
    ReadSpec,
    WriteSpec,
    option_set,
)
from pz_core.errors import PzError
from pz_example.folder import Folder
from pz_example.reading import StreamSource
from pz_example.writing import StreamSink


class Example:
    """Arrow streams in a folder: an entity is the file ``<entity>.arrows``."""

    name: ClassVar[str] = "example"
    testkit: ClassVar[str] = "pz_example.kit:ExampleSuite"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("folder", "string", "where the files are; relative to the project, or absolute", required=True),
    )
    read_options: ClassVar[OptionSet] = option_set()
    write_options: ClassVar[OptionSet] = option_set()
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._folder = Folder.of(connection)

    def validate(self) -> Sequence[PzError]:
        """Nothing that an option's own declaration does not say already."""
        return ()

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """PZ0353 for an entity that no file can be named after."""
        return self._name_faults(spec.entity)

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """PZ0353 for an entity that no file can be named after."""
        return self._name_faults(spec.entity)

    def _name_faults(self, entity: str) -> Sequence[PzError]:
        try:
            self._folder.file(entity)
        except ConnectorError as error:
            return (error,)
        return ()

    def write_place(self, spec: WriteSpec) -> str:
        """The file: two connections may well have one folder."""
        return str(self._folder.file(spec.entity))

    def check(self) -> CheckReport:
        """Whether the folder is one; the first write makes one that is not there."""
        path = self._folder.path
        if path.is_dir():
            return CheckReport(True, f"folder {path.name} is there")
        if any(parent.is_file() for parent in (path, *path.parents)):
            return CheckReport(False, f"{path.name} is no folder, or lies in a file", "point folder: at a folder")
        return CheckReport(True, f"folder {path.name} is not there; a write will create it")

    def open_source(self) -> StreamSource:
        """Open for reading; touches nothing."""
        return StreamSource(self._folder)

    def open_sink(self) -> StreamSink:
        """Open for writing; touches nothing."""
        return StreamSink(self._folder)

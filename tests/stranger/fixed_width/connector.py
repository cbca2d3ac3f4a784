"""The class behind ``connector: fixed_width``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from pz_fixed_width.sink import Sink
from pz_fixed_width.source import Source
from pz_fixed_width.text import ARROW, Layout

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
from pz_core.values import Value

_WIDTH = Option("width", "integer", "characters of every column", default="40", minimum=4, maximum=300_000)


class FixedWidth:
    """Files of one folder: a line of column names, then a line a row, every field padded with spaces."""

    name: ClassVar[str] = "fixed_width"
    testkit: ClassVar[str] = "pz_fixed_width.kit:FixedWidthSuite"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("folder", "string", "where the files are; relative to the project, or absolute", required=True),
    )
    read_options: ClassVar[OptionSet] = option_set(_WIDTH)
    write_options: ClassVar[OptionSet] = option_set(_WIDTH)
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._name = connection.name
        self._folder = Path(connection.base_dir) / str(connection.options.get("folder", ""))

    def validate(self) -> Sequence[PzError]:
        """A folder's name has no NUL."""
        if "\0" in str(self._folder):
            return (
                ConnectorError(f"connection '{self._name}': folder is no path", code="PZ0301", hint="write a path"),
            )
        return ()

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """The name must do for a file, and the contract name types that text of this kind has."""
        return [*self._name_faults(spec.entity), *self._contract_faults(spec)]

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """The name must do for a file."""
        return list(self._name_faults(spec.entity))

    def write_place(self, spec: WriteSpec) -> str:
        """The file."""
        return str(self._file(spec.entity).resolve())

    def check(self) -> CheckReport:
        """Whether the folder can be used."""
        try:
            if self._folder.is_dir():
                return CheckReport(True, f"{self._folder} is a folder")
            if self._folder.exists():
                return CheckReport(False, f"{self._folder} is no folder", "point folder: at a folder")
        except (OSError, ValueError) as error:
            return CheckReport(False, f"the folder cannot be looked at: {type(error).__name__}", "correct folder:")
        return CheckReport(True, f"{self._folder} is not there; a write will make it")

    def open_source(self) -> Source:
        """Open for reading."""
        return Source(self._layout)

    def open_sink(self) -> Sink:
        """Open for writing."""
        return Sink(self._layout)

    def _layout(self, entity: str, options: Mapping[str, Value]) -> Layout:
        return Layout(f"{self._name}.{entity}", self._file(entity), int(str(options.get("width", 40))))

    def _file(self, entity: str) -> Path:
        return self._folder / f"{quote(entity, safe=' ')}.txt"

    def _name_faults(self, entity: str) -> Iterator[PzError]:
        if len(self._file(entity).name) > 200:
            message = f"{self._name}.{entity[:40]}…: the name is too long for a file"
            yield ConnectorError(message, code="PZ0353", hint="choose a shorter name")

    def _contract_faults(self, spec: ReadSpec) -> Iterator[PzError]:
        for column, word in (spec.columns or {}).items():
            if word not in ARROW:
                message = f"{self._name}.{spec.entity}: column '{column}' cannot be {word}"
                yield ConnectorError(message, code="PZ0353", hint=f"declare one of {', '.join(ARROW)}, and convert it")

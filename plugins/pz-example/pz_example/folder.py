"""The folder of a connection, and which file an entity is."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from pz_core.contract import ConnectionConfig, ConnectorError
from pz_core.errors import PzError

#: Most file systems take names of 255 bytes; the rest is for the ending and a run id.
_LONGEST = 200


class Folder(Struct, frozen=True):
    """A connection's folder.

    Args:
        connection: its name, for messages.
        path: absolute, links resolved.
    """

    connection: str
    path: Path

    @classmethod
    def of(cls, config: ConnectionConfig) -> Folder:
        """From a connection.

        Raises:
            PzError: PZ0301 for a path that no folder can have.
        """
        text = str(config.options["folder"])
        if "\0" in text:
            raise PzError(
                "PZ0301",
                f"connection '{config.name}': option 'folder' holds a NUL byte",
                hint="take the escape out of the text",
            )
        return cls(config.name, Path(os.path.realpath(Path(config.base_dir) / text)))

    def file(self, entity: str) -> Path:
        """The file of an entity. Its name is percent-encoded, so that any entity has one and none leads elsewhere.

        Raises:
            ConnectorError: PZ0353 for a name that would be too long.
        """
        name = quote(entity, safe=" ")
        if not name or len(name) > _LONGEST:
            raise ConnectorError(
                f"{self.connection}.{entity[:60]}: no file can be named after the entity",
                code="PZ0353",
                hint=f"choose a name of at most {_LONGEST} letters and digits; others count three times and more",
            )
        return self.path / f"{name}.arrows"

    def fault(self, entity: str, error: Exception) -> ConnectorError:
        """What the operating system or Arrow met, with the file's name and no value of the data."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is no Arrow stream"
        return ConnectorError(
            f"{self.connection}.{entity}: {self.file(entity).name}: {reason}",
            hint="check that the folder can be read and written, and that another program has not changed the file",
            cause=error,
        )

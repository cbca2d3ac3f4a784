"""Reading files of this machine: listed, and their first bytes looked at."""

from __future__ import annotations

from pathlib import Path

from pz_core.contract.connector import ConnectorError, ReadSpec
from pz_core.contract.files import HEAD_BYTES, FileRead, FilesSource, FoundFiles, SourceFile
from pz_localfiles.places import Places


class FileSource(FilesSource):
    """Files of one connection, open for one attempt."""

    def __init__(self, connection: str, places: Places) -> None:
        super().__init__(connection)
        self._places = places

    def planned_place(self, spec: ReadSpec, read: FileRead) -> str:
        """The path or glob itself."""
        return str(self._places.source(spec.entity, spec.options, read.format))

    def find(self, spec: ReadSpec, read: FileRead, *, local: bool) -> FoundFiles:
        """The files; both databases reach them alike.

        Raises:
            ConnectorError: if there are none, or one cannot be read; PZ0365.
        """
        location = self._places.source(spec.entity, spec.options, read.format)
        path = spec.options.get("path")
        escape = self._places.escape(location, str(path) if path is not None else None, read.subject)
        if escape is not None:
            raise ConnectorError(escape.message, code=escape.code, hint=escape.hint)
        paths = self._places.found(location, read.format, read.subject)
        return FoundFiles(tuple(self._look(read, path) for path in paths))

    def _look(self, read: FileRead, path: Path) -> SourceFile:
        shown = self._places.shown(path)
        if read.format == "parquet":
            return SourceFile(str(path), shown)
        try:
            head = _head(path)
        except OSError as error:
            raise ConnectorError(
                f"{read.subject}: {shown} cannot be read: {error.strerror or type(error).__name__}",
                hint="check the permissions of the file, and that its ending says how it is compressed",
                cause=error,
            ) from error
        return SourceFile(str(path), shown, head[:HEAD_BYTES], len(head) <= HEAD_BYTES)


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed as its ending says; one more than wanted tells that there are more."""
    if path.suffix not in (".gz", ".zst"):
        with path.open("rb") as stream:
            return stream.read(HEAD_BYTES + 1)
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else "zstd") as packed:
        return bytes(packed.read(HEAD_BYTES + 1))

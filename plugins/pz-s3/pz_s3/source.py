"""Reading objects: listed and looked at through the store's client, then read by DuckDB itself or from a copy here."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec.structs
from msgspec import Struct, field

from pz_core.contract.connector import ConnectorError, CursorBounds, NativeScan, ReadHints, ReadSpec, Setup
from pz_core.contract.extensions import planned_loading
from pz_core.contract.files import (
    HEAD_BYTES,
    FileRead,
    FilesSource,
    Format,
    FoundFiles,
    ResolvedRead,
    SourceFile,
    covering_paths,
    has_calendar_tokens,
)
from pz_core.values import Column
from pz_s3 import httpfs, workshop
from pz_s3.client import Client, Found
from pz_s3.faults import told, unread
from pz_s3.places import Place, is_data, is_plain, matches, source_place
from pz_s3.settings import Settings

if TYPE_CHECKING:
    import duckdb

_PACKED = (".gz", ".zst")


class _Looked(Struct):
    """What a read was found to be: its objects with their first bytes, and a copy of each where one was made."""

    spec: ReadSpec
    bucket: str
    objects: list[tuple[Found, bytes]]
    sample: tuple[Found, bytes] | None
    copies: dict[str, Path] = field(default_factory=dict)


class ObjectSource(FilesSource):
    """Objects of one connection, open for one attempt."""

    default_format: ClassVar[Format] = "parquet"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.name)
        self._settings = settings
        self._client = Client(settings)
        self._looked: _Looked | None = None
        self._folder: Path | None = None
        self._reader: duckdb.DuckDBPyConnection | None = None
        self._remote = False
        self._closed = threading.Event()

    # --- what DuckDB reads by itself ------------------------------------------------------------------------------

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """For a plan; nothing is asked. ``None`` where other connections have taken all ways to name the bucket."""
        place = self._places(spec, self.checked(spec), None)[0]
        planned = super().native_scan(spec) if httpfs.scheme(self._client, place.bucket) is not None else None
        return None if planned is None else msgspec.structs.replace(planned, setup=planned_loading("httpfs"))

    def planned_place(self, spec: ReadSpec, read: FileRead) -> str:
        """The address or the pattern of the read."""
        return self._places(spec, read, None)[0].shown

    def natively(self, found: FoundFiles) -> bool:
        """Whether DuckDB opens every object by its exact name."""
        return self._exact(self._looked) if self._looked is not None else False

    def setup(self) -> tuple[Setup, ...]:
        """The extension and the secret for the bucket that was looked at."""
        assert self._looked is not None, "files are found before they are read"
        return self._setup_of(self._looked.bucket)

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """Columns and types, proven over all rows."""
        read = self.checked(spec)
        found = self.find(spec, read, local=False)
        if not self.natively(found):
            return super().schema(spec)
        return tuple(Column(name, kind) for name, kind in self._resolved(read, found).columns)

    def settle_scan(self, spec: ReadSpec) -> NativeScan:
        """The scan to land after a guarded one has failed: every type proven."""
        with self._told_apart(f"{self._name}.{spec.entity}"):
            return super().settle_scan(spec)

    def _resolved(self, read: FileRead, found: FoundFiles, *, guarded: bool = False) -> ResolvedRead:
        with self._told_apart(read.subject):
            return super()._resolved(read, found, guarded=guarded)

    @contextlib.contextmanager
    def _told_apart(self, subject: str) -> Iterator[None]:
        """A broken way to the store may pass; what is wrong with an object's content does not."""
        try:
            yield
        except ConnectorError as error:
            broken = unread(error, self._settings, subject)
            if broken is None:
                raise
            raise broken from error

    # --- finding --------------------------------------------------------------------------------------------------

    def find(self, spec: ReadSpec, read: FileRead, *, local: bool) -> FoundFiles:
        """The objects of a read; with ``local`` as copies on this machine.

        Raises:
            ConnectorError: if there are none, or the store cannot be asked; PZ0353, PZ0365.
        """
        bare = msgspec.structs.replace(spec, hints=ReadHints())
        if self._looked is None or self._looked.spec != bare:
            if not local:
                httpfs.load_ahead(self._settings.base_dir)
            self._looked = self._look(bare, read)
        looked = self._looked
        exact = self._exact(looked)
        self._remote = not local and exact and bool(looked.objects or looked.sample)
        if self._remote:
            self._prepare(looked.bucket)
        word = (httpfs.scheme(self._client, looked.bucket) if exact else None) or "s3"

        def file(one: tuple[Found, bytes]) -> SourceFile:
            place, head = Place(looked.bucket, one[0].key), one[1]
            path = str(self._copy(looked, place, read)) if local else httpfs.address(word, place)
            return SourceFile(path, place.shown, head[:HEAD_BYTES], len(head) <= HEAD_BYTES)

        sample = file(looked.sample) if looked.sample is not None and not looked.objects else None
        return FoundFiles(tuple(file(one) for one in looked.objects), sample)

    def _exact(self, looked: _Looked) -> bool:
        objects = looked.objects or ([looked.sample] if looked.sample is not None else [])
        named = httpfs.scheme(self._client, looked.bucket) is not None
        return named and all(is_plain(one[0].key) for one in objects)

    def _look(self, spec: ReadSpec, read: FileRead) -> _Looked:
        places = self._places(spec, read, spec.bounds)
        bucket = places[0].bucket
        dated = has_calendar_tokens(str(spec.options.get("path", "")))
        found = {one.key: one for place in places for one in self._objects(place, read, dated=dated)}
        objects = sorted(found.values(), key=lambda one: one.key)
        sample = None
        if not objects and read.columns is None:
            sample = self._outside(spec, read)
        return _Looked(
            spec,
            bucket,
            [(one, self._head(bucket, one, read)) for one in objects],
            (sample, self._head(bucket, sample, read)) if sample is not None else None,
        )

    def _places(self, spec: ReadSpec, read: FileRead, bounds: CursorBounds | None) -> list[Place]:
        path = spec.options.get("path")
        paths: Iterable[str | None] = (None,) if path is None else covering_paths(str(path), bounds)
        return [source_place(self._settings, spec.entity, spec.options, one, read.format) for one in paths]

    def _objects(self, place: Place, read: FileRead, *, dated: bool) -> list[Found]:
        """The objects of one path. A key that exists is taken as it is, whatever characters it has.

        Args:
            place: with wildcards, or a key, or a folder.
            read: what is asked for.
            dated: whether the path had calendar tokens: then a folder of a day may well be missing.
        """
        with told(self._settings, read.subject, place.bucket, f"looking for {place.shown}"):
            exact = None if place.key.endswith("/") or not place.key else self._client.object(place.bucket, place.key)
            if exact is not None:
                return [exact]
            folder = place.key if not place.key or place.key.endswith("/") else f"{place.key}/"
            listed = self._client.listing(place.bucket, folder)
            found = [one for one in listed if is_data(one.key, folder, read.format)]
            if place.wild and not found:
                listed = self._client.listing(place.bucket, place.fixed)
                found = [one for one in listed if matches(place.key, one.key)]
        if place.wild:
            missing = f"no object matches {place.shown}"
        elif folder == place.key:
            missing = f"{place.shown} holds no {read.format} file"
        else:
            missing = f"there is no object {place.shown}"
        if found or dated:
            return found
        raise ConnectorError(
            f"{read.subject}: {missing}", hint="check path: and root:, or write the object before the run"
        )

    def _outside(self, spec: ReadSpec, read: FileRead) -> Found | None:
        """Any object of a dated path, for its columns: the last one that the whole calendar has."""
        place = self._places(spec, read, None)[0]
        found = self._objects(place, read, dated=True)
        return max(found, key=lambda one: one.key, default=None)

    # --- looking and copying --------------------------------------------------------------------------------------

    def _head(self, bucket: str, one: Found, read: FileRead) -> bytes:
        """The first bytes, decompressed as the key's ending says; one more than wanted tells that there are more."""
        if read.format == "parquet" or one.size == 0:
            return b""
        place = Place(bucket, one.key)
        packing = {".gz": "gzip", ".zst": "zstd"}.get(Path(one.key).suffix)
        with told(self._settings, read.subject, bucket, f"reading {place.shown}"):
            if packing is None:
                with self._client.reading(bucket, one.key, HEAD_BYTES + 1) as body:
                    return bytes(body.read())
            with self._client.reading(bucket, one.key) as body:
                return _unpacked(body, packing, place, read)

    def _copy(self, looked: _Looked, place: Place, read: FileRead) -> Path:
        made = looked.copies.get(place.key)
        if made is not None:
            return made
        with told(self._settings, read.subject, place.bucket, f"reading {place.shown}"):
            if self._folder is None:
                self._folder = workshop.new_folder(self._settings)
            name = f"{len(looked.copies):06d}-{zlib.crc32(place.key.encode()):08x}"
            packed = "".join(suffix for suffix in (Path(place.key).suffix,) if suffix in _PACKED)
            path = self._folder / f"{name}.{read.format}{packed}"
            self._client.download(place.bucket, place.key, path, self._closed.is_set)
        looked.copies[place.key] = path
        return path

    def database(self) -> duckdb.DuckDBPyConnection:
        """The database that reaches what was found last: the store, or the copies on this machine."""
        return self._reader if self._reader is not None and self._remote else super().database()

    def _prepare(self, bucket: str) -> None:
        """Have a database that reads the bucket."""
        if self._reader is None:
            self._reader = httpfs.reader(self._settings.base_dir, self._setup_of(bucket))

    def _setup_of(self, bucket: str) -> tuple[Setup, ...]:
        word = httpfs.scheme(self._client, bucket)
        assert word is not None, "natively() has said so"
        with told(self._settings, self._settings.name, bucket, "preparing DuckDB"):
            return httpfs.setup(self._client, word, bucket)

    def interrupt(self) -> None:
        """From another thread: a download or a look that is under way ends soon."""
        self._closed.set()
        for one in (self._reader, self._database):
            if one is not None:
                one.interrupt()

    def close(self) -> None:
        """Give memory, connections and disk back; a download that is under way ends."""
        self._closed.set()
        super().close()
        self._client.close()
        if self._folder is not None:
            workshop.remove(self._folder)
            self._folder = None
        self._looked = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _unpacked(body: Any, packing: str, place: Place, read: FileRead) -> bytes:
    import pyarrow as pa

    try:
        with pa.input_stream(pa.PythonFile(body, mode="r"), compression=packing) as packed:
            return bytes(packed.read(HEAD_BYTES + 1))
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, ConnectionError):
            raise
        raise ConnectorError(
            f"{read.subject}: {place.shown} is not the {packing} file that its ending says",
            hint="correct the object, or the ending of its key",
            cause=error,
        ) from error

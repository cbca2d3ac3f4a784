"""Writing objects: a whole file on this machine first, then one upload that shows nothing until its last byte.

DuckDB could write to S3 by itself, but a COPY that fails there leaves the rows so far under the final key, and a small
one the parts of an upload that nobody completes.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from pz_core.contract.connector import AbortSemantics, ConnectorError, NativeCopy, Receipt, WriteSpec
from pz_core.contract.files import (
    Format,
    RowSpool,
    copy_options,
    copy_projection,
    extension,
    format_faults,
    is_appended,
    written_name,
)
from pz_core.values import Column
from pz_s3 import workshop
from pz_s3.client import Client
from pz_s3.faults import told
from pz_s3.places import Place, below, stem_of, target_folder
from pz_s3.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

_ROOM = "check that the project's folder .pz/tmp can be written and has room for the output"


class Target(Struct, frozen=True):
    """What one write makes.

    Args:
        subject: ``connection.entity``.
        folder: where, without a slash at the end of its key.
        stem: how the names of the entity's objects begin.
        final: the object.
        format: of the file.
        options: of DuckDB's COPY.
        replaces: whether the objects of earlier appends are removed afterwards.
    """

    subject: str
    folder: Place
    stem: str
    final: Place
    format: Format
    options: str
    replaces: bool

    @classmethod
    def of(cls, settings: Settings, spec: WriteSpec) -> Target:
        """Of a write.

        Raises:
            ConnectorError: PZ0353, PZ0361, PZ0362, PZ0365.
        """
        subject = f"{settings.name}.{spec.entity}"
        given = str(spec.options.get("format", "parquet"))
        faults = format_faults(subject, given, spec.options, "write")
        if faults:
            raise ConnectorError(faults[0].message, code=faults[0].code, hint=faults[0].hint)
        known = cast(Format, given)
        folder = target_folder(settings, spec.entity, spec.options)
        stem, ending = stem_of(spec.entity), extension(known, spec.options)
        final = below(folder, written_name(stem, ending, spec.load_mode, spec.run_id))
        options = copy_options(known, spec.options)
        return cls(subject, folder, stem, final, known, options, spec.load_mode == "swap")


class ObjectSink:
    """Buckets of one connection, open for one attempt."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = Client(settings)
        self._folder: Path | None = None
        self._stopped = threading.Event()

    def native_write(self, spec: WriteSpec) -> NativeCopy:
        """A COPY on this machine, which :meth:`deliver` uploads. A plan asks for it too: nothing is made here."""
        target = Target.of(self._settings, spec)
        folder = self._folder_of_attempt() if spec.columns is not None else workshop.planned_folder(self._settings)
        return NativeCopy(
            path=str(folder / f"rows.{target.format}"),
            options=target.options,
            mechanism=f"COPY to {target.format} and one upload",
            projection=copy_projection(target.format, spec.columns),
        )

    def deliver(self, spec: WriteSpec, copy: NativeCopy) -> None:
        """Upload the finished file, then remove what a ``replace`` supersedes.

        Raises:
            ConnectorError: if the store refuses or cannot be reached, or if told to stop; the target is as it was, or
                has the new object.
        """
        self._publish(Target.of(self._settings, spec), Path(copy.path))

    def stop(self) -> None:
        """End a delivery soon: no further part is sent, and what was sent is discarded."""
        self._stopped.set()

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> ObjectSession:
        """Begin a write in batches; nothing is visible before its commit."""
        return ObjectSession(self, Target.of(self._settings, spec), columns)

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def close(self) -> None:
        """Give connections and disk back."""
        self._client.close()
        if self._folder is not None:
            workshop.leave(self._folder)
            self._folder = None

    def _folder_of_attempt(self) -> Path:
        if self._folder is None:
            self._client.prepare()
            with told(self._settings, self._settings.name, "", "making a folder for the output"):
                self._folder = workshop.new_folder(self._settings)
        return self._folder

    def _publish(self, target: Target, path: Path) -> None:
        self._clear_up()
        folder, final = path.parent, target.final
        with told(self._settings, target.subject, final.bucket, f"writing {final.shown}"):
            self._client.upload(
                path,
                final.bucket,
                final.key,
                self._stopped.is_set,
                begun=lambda upload: workshop.note(folder, workshop.Upload(final.bucket, final.key, upload)),
                ended=lambda upload: workshop.forget(folder, upload),
            )
        if not target.replaces:
            return
        with told(self._settings, target.subject, final.bucket, f"removing what {final.shown} replaces"):
            prefix = below(target.folder, target.stem + "-").key
            listed = [one.key for one in self._client.listing(final.bucket, prefix)]
            start = len(prefix) - len(target.stem) - 1
            self._client.delete(final.bucket, [key for key in listed if is_appended(key[start:], target.stem)])

    def _clear_up(self) -> None:
        """Discard what a killed process of this connection left on this machine, and its unfinished uploads."""
        for folder, uploads in workshop.abandoned(self._settings):
            kept = False
            for upload in uploads:
                try:
                    self._client.abort(upload.bucket, upload.key, upload.id)
                except Exception:  # noqa: BLE001 - another bucket's troubles are none of this write's; tried again
                    kept = True
            if not kept:
                workshop.remove(folder)


class ObjectSession:
    """A write in batches: rows gather in a database that spills to disk, then one COPY and one upload."""

    def __init__(self, sink: ObjectSink, target: Target, columns: tuple[Column, ...]) -> None:
        self._sink = sink
        self._target = target
        self._folder = sink._folder_of_attempt()
        self._spool = RowSpool(target.subject, columns, self._folder / "spill", _ROOM)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch; it is copied before the call returns."""
        self._spool.write(batch)

    def commit(self) -> Receipt:
        """Write the file, upload it, and remove what it supersedes."""
        path = self._folder / f"rows.{self._target.format}"
        try:
            self._spool.copy_to(path, self._target.format, self._target.options)
            self._sink._publish(self._target, path)
        finally:
            self._discard(path)
        return Receipt(self._spool.rows, self._spool.batches)

    def abort(self) -> None:
        """Remove what was gathered; the target was never touched."""
        self._discard(self._folder / f"rows.{self._target.format}")

    def _discard(self, path: Path) -> None:
        self._spool.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

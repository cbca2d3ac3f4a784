"""Writing files: aside under a name of our own, then moved into place whole."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from pz_core.contract.connector import AbortSemantics, ConnectorError, Move, NativeCopy, Receipt, WriteSpec
from pz_core.contract.files import (
    Format,
    RowSpool,
    copy_options,
    copy_projection,
    extension,
    file_stem,
    format_faults,
    written_name,
)
from pz_core.errors import PzError
from pz_core.values import Column
from pz_core.values.durable import make_durable, sync_folder
from pz_localfiles.places import Places, appended, leftovers, temporary

if TYPE_CHECKING:
    import pyarrow as pa


class _Target(Struct, frozen=True):
    """What one write does to its folder."""

    subject: str
    format: Format
    options: str
    temporary: Path
    final: Path
    stale: tuple[Path, ...]
    superseded: tuple[Path, ...]


class FileSink:
    """Folders of one connection, open for one attempt."""

    def __init__(self, connection: str, places: Places) -> None:
        self._name = connection
        self._places = places

    def native_write(self, spec: WriteSpec) -> NativeCopy:
        """A COPY aside and a move. A plan, which has no run, looks at no folder."""
        target = self._target(spec)
        return NativeCopy(
            path=str(target.temporary),
            options=target.options,
            mechanism=f"COPY to {target.format}",
            moves=(Move(str(target.temporary), str(target.final)),),
            projection=copy_projection(target.format, spec.columns),
            removes=tuple(str(p) for p in (*target.stale, *target.superseded) if not p.is_dir()),
        )

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> FileSession:
        """Begin a write in batches; nothing is visible before its commit."""
        return FileSession(self._target(spec), columns, self._places)

    def abort_semantics(self) -> AbortSemantics:
        """An abort leaves no trace."""
        return "discards_all"

    def close(self) -> None:
        """Nothing is held."""

    def _target(self, spec: WriteSpec) -> _Target:
        subject = f"{self._name}.{spec.entity}"
        file_format = str(spec.options.get("format", "parquet"))
        faults = format_faults(subject, file_format, spec.options, "write")
        folder = self._places.folder(spec.entity, spec.options)
        path = spec.options.get("path")
        escape = self._places.escape(folder, str(path) if path is not None else None, subject)
        if faults or escape:
            fault = faults[0] if faults else cast(PzError, escape)
            raise ConnectorError(fault.message, code=fault.code, hint=fault.hint)
        known = cast(Format, file_format)
        stem, ending = file_stem(spec.entity), extension(known, spec.options)
        swap = spec.load_mode == "swap"
        final = folder / written_name(stem, ending, spec.load_mode, spec.run_id)
        stale = tuple(leftovers(folder, stem)) if spec.run_id else ()
        superseded = tuple(appended(folder, stem)) if spec.run_id and swap else ()
        return _Target(
            subject,
            known,
            copy_options(known, spec.options),
            temporary(folder, stem, ending, spec.run_id, spec.attempt),
            final,
            stale,
            superseded,
        )


class FileSession:
    """A write in batches: rows gather in a database that spills beside the target, then one COPY writes them."""

    def __init__(self, target: _Target, columns: tuple[Column, ...], places: Places) -> None:
        self._target = target
        self._places = places
        with self._local_files():
            target.temporary.parent.mkdir(parents=True, exist_ok=True)
        self._spool = RowSpool(
            target.subject,
            columns,
            target.temporary.with_name(target.temporary.name + ".spill"),
            f"check that {places.shown(target.final.parent)} can be written and has room",
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch; it is copied before the call returns."""
        self._spool.write(batch)

    def commit(self) -> Receipt:
        """Write the file aside, bring it to the disk, move it into place, and remove what it supersedes."""
        target = self._target
        try:
            self._spool.copy_to(target.temporary, target.format, target.options)
            with self._local_files():
                make_durable(target.temporary)
                target.temporary.replace(target.final)
                sync_folder(target.final.parent)
                for path in (*target.superseded, *target.stale):
                    _remove(path)
        finally:
            self._discard()
        return Receipt(self._spool.rows, self._spool.batches)

    def abort(self) -> None:
        """Remove what was written aside; the target was never touched."""
        self._discard()

    def _discard(self) -> None:
        self._spool.close()
        _remove(self._target.temporary)

    @contextlib.contextmanager
    def _local_files(self):  # type: ignore[no-untyped-def]
        try:
            yield
        except OSError as error:
            place = self._places.shown(error.filename) if error.filename else "the folder"
            raise ConnectorError(
                f"{self._target.subject}: {place}: {error.strerror or type(error).__name__}",
                hint="check that the folder can be written and that no folder stands where the file should be",
                cause=error,
            ) from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

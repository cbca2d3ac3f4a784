"""Drain into files that DuckDB writes by itself: aside first, then swapped in.

Sources: engine.md 3.3 (who makes folders, who renames), DESIGN "It survives" (old data or new data, never half).
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from pz_core.contract.connector import ConnectorError, DeliveringSink, NativeCopy, WriteSpec
from pz_core.contract.engine import DrainResult
from pz_core.engines.duckdb.landing import connector_faults
from pz_core.engines.duckdb.loading import Batch
from pz_core.engines.duckdb.session import Work
from pz_core.errors import Where
from pz_core.values import quote_literal
from pz_core.values.durable import flushing, make_durable, sync_folder


def copy_out(
    batch: Batch, copy: NativeCopy, work: Work, *, spec: WriteSpec, deliverer: DeliveringSink | None = None
) -> DrainResult:
    """COPY to a name aside, make it durable, then move it over the target. Until the moves begin the old content stays.

    Args:
        batch: the rows.
        copy: how they are written.
        work: of the task.
        spec: the write.
        deliverer: the sink where it brings the file to its place by itself, instead of moves.

    Raises:
        duckdb.Error: if the COPY fails; what it wrote is removed.
        ConnectorError: if a file cannot be moved, delivered or its folder not be made.
        PzError: PZ0811.
        Cancelled: if told to stop before the moves, or before the delivery was complete.
    """
    local = "://" not in copy.path
    with _local_files(batch):
        if local:
            _make_folders(copy)
    options = f" ({copy.options})" if copy.options.strip() else ""
    try:
        sql = f"COPY (SELECT {copy.projection} FROM {batch.name}) TO {quote_literal(copy.path)}{options}"
        with flushing(Path(copy.path)) if local else contextlib.nullcontext():
            written = work.count(sql)
        batch.refuse_other_count(written=written)
        work.control.raise_if_cancelled()
        if deliverer is not None:
            _deliver(batch, copy, work, spec, deliverer)
            _remove(Path(copy.path))
            return DrainResult(written, written, "native")
        with _local_files(batch):
            if local:
                make_durable(Path(copy.path))
    except BaseException:
        work.shield()
        if local:
            _remove(Path(copy.path))
        raise
    work.commits()
    with _local_files(batch):
        for move in copy.moves:
            Path(move.source).replace(move.target)
        for folder in {Path(move.target).parent for move in copy.moves}:
            sync_folder(folder)
        for name in copy.removes:
            Path(name).unlink(missing_ok=True)
    return DrainResult(written, written, "native")


def _deliver(batch: Batch, copy: NativeCopy, work: Work, spec: WriteSpec, deliverer: DeliveringSink) -> None:
    work.also_on_cancel(deliverer.stop)
    work.committing = True  # it can still be stopped, but only the deliverer knows where it was by then
    try:
        with connector_faults(batch.subject, batch.node):
            deliverer.deliver(spec, copy)
    except ConnectorError:
        work.control.raise_if_cancelled()  # what was told to stop says so in words of its own
        raise


def _make_folders(copy: NativeCopy) -> None:
    for name in (copy.path, *(move.target for move in copy.moves)):
        Path(name).parent.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _local_files(batch: Batch):  # type: ignore[no-untyped-def]
    try:
        yield
    except (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise ConnectorError(
            f"{batch.subject}: {error.strerror}: {error.filename}",
            where=Where(node=batch.node),
            hint="check that the folder can be written and that no folder stands where the file should be",
            cause=error,
        ) from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

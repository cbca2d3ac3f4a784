"""Bring files to the disk, and begin with it while they are still being written."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

#: A file that takes less is left to the one flush at its end.
_EVERY_SECONDS = 0.25


def make_durable(path: Path) -> None:
    """Bring a file, or every file of a folder, to the disk: a rename may get there before the content does.

    Raises:
        OSError: whatever the system says.
    """
    for file in _files(path):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_folder(folder: Path) -> None:
    """Bring the entries of a folder to the disk.

    Raises:
        OSError: whatever the system says.
    """
    if os.name != "posix":
        return  # a folder cannot be opened there, and its entries are durable without
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def flushing(path: Path) -> Iterator[None]:
    """Flush what is written to a file now and then, so that the disk works while the processor does.

    It is a head start and no promise: what must be durable goes through :func:`make_durable` at its end. A fault here
    is left for that to find. One handle is kept to the end of the block: a process that closes any handle of a file
    loses all locks that it has on it (POSIX), and DuckDB holds one on its database.
    """
    done = threading.Event()

    def work() -> None:
        handle: int | None = None
        while not done.wait(_EVERY_SECONDS):
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY) if handle is None else handle
                os.fsync(handle)
        if handle is not None:
            os.close(handle)

    flusher = threading.Thread(target=work, name="pz-flush", daemon=True)
    flusher.start()
    try:
        yield
    finally:
        done.set()
        flusher.join()


def _files(path: Path) -> list[Path]:
    return [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]

"""The lock of a run's directory: held by the operating system for as long as the run's process lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

NAME = ".lock"


class RunLock:
    """Holds ``.lock`` of a run's directory until it is released or the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        self._lock = FileLock(directory / NAME, thread_local=False)

    def take(self) -> None:
        """Take the lock at once.

        Raises:
            TimeoutError: if another process holds it.
        """
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise TimeoutError("the run's directory is locked by another process") from error

    def release(self) -> None:
        """Give the lock back; harmless if it is not held."""
        self._lock.release(force=True)


def is_live(directory: Path) -> bool:
    """Whether a run is going on in a directory. A lock that cannot be tried counts as held."""
    with idle(directory) as free:
        return not free


@contextmanager
def idle(directory: Path) -> Iterator[bool]:
    """Hold the lock of a directory whose run has ended, to be alone in it; gives ``False`` if it is live."""
    if not (directory / NAME).exists():
        yield True
        return
    lock = FileLock(directory / NAME, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release(force=True)

"""A named pipe: DuckDB writes a file that is none, and a thread reads what it writes as it comes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Whether this system has named pipes.
PIPES = hasattr(os, "mkfifo")
#: Bytes that a pipe holds where the system lets it be told so; more means fewer changes between writer and reader.
_ROOM = 1 << 20


class Pipe:
    """A pipe with a reader, so that a writer can open it at once, and with no end before :meth:`end`.

    Args:
        path: where it is made.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self.path: Path | None = path
        # Without waiting for each other: the reader first, then a writer that keeps the pipe from ending.
        self._reader: int | None = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._guard: int | None = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(self._reader, True)
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import fcntl

            fcntl.fcntl(self._reader, fcntl.F_SETPIPE_SZ, _ROOM)

    def read(self, into: memoryview) -> int:
        """Wait for bytes; 0 once all writers have gone."""
        return 0 if self._reader is None else os.readv(self._reader, [into])

    def forget(self) -> None:
        """Once bytes have come, both ends are open and need no name: whoever is killed then leaves none behind."""
        path, self.path = self.path, None
        if path is not None:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    def end(self) -> None:
        """What has been written by now is all."""
        guard, self._guard = self._guard, None
        if guard is not None:
            os.close(guard)

    def close(self) -> None:
        """Nobody reads any more: a writer gets an error. By the reader only."""
        reader, self._reader = self._reader, None
        if reader is not None:
            os.close(reader)
        self.forget()

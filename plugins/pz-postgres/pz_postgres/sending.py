"""One COPY FROM STDIN, fed by a thread of its own: while the server takes rows, the next are encoded."""

from __future__ import annotations

import contextlib
import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pz_postgres.control import statement_error
from pz_postgres.pipe import Pipe

if TYPE_CHECKING:
    import psycopg

#: Bytes before the first row of PostgreSQL's binary form, and after the last.
_HEADER, _TRAILER = 19, b"\xff\xff"
_PIECE = 1 << 20
#: Encoded batches that wait for the server. One would do, were all of one size.
_WAITING = 2


class _Abandoned(Exception):
    """The COPY was given up; never told."""


class Sending:
    """A COPY that is under way. Nobody else uses its connection before :meth:`finish` or :meth:`abandon`.

    Args:
        connection: of the transaction.
        statement: the COPY, in binary form.
        subject: ``connection.entity``, for messages.
    """

    def __init__(self, connection: psycopg.Connection[Any], statement: str, subject: str) -> None:
        self._connection, self._statement, self._subject = connection, statement, subject
        self._todo: queue.Queue[Path | Pipe | None] = queue.Queue(_WAITING)
        self._trailed = False
        self._fault: BaseException | None = None
        self._context: Any = None
        self._writer: Any = None
        self._thread = threading.Thread(target=self._work, name="pz-postgres-send", daemon=True)
        self._thread.start()

    def add(self, file: Path) -> None:
        """Send a file that DuckDB has encoded, and remove it; waits while others wait.

        Raises:
            ConnectorError: why a file before this one could not be sent.
        """
        self._tell()
        self._todo.put(file)

    def take(self, pipe: Pipe) -> None:
        """Send all that is written to a pipe, in place of files, and close it; returns at once."""
        self._todo.put(pipe)

    def finish(self) -> None:
        """Wait until all is sent, and end the COPY.

        Raises:
            ConnectorError: what the server, or the way to it, said.
        """
        import psycopg

        self._todo.put(None)
        self._thread.join()
        self._tell()
        try:
            if self._writer is not None:
                if not self._trailed:
                    self._writer.write(_TRAILER)
                self._context.__exit__(None, None, None)
        except psycopg.Error as error:
            raise statement_error(error, self._subject) from error

    def refuse(self) -> None:
        """After the pipe has ended too soon: wait for the thread, and tell a fault that is not the writer's.

        Raises:
            ConnectorError: what the server, or the way to it, said before that.
        """
        self._todo.put(None)
        self._thread.join()
        self._tell()

    def abandon(self) -> None:
        """Give the COPY up; the server forgets its rows."""
        if self._fault is None:
            self._fault = _Abandoned()
        self._todo.put(None)
        self._thread.join()
        if self._context is not None:
            with contextlib.suppress(Exception):
                self._context.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)

    def _tell(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _work(self) -> None:
        while (encoded := self._todo.get()) is not None:
            # After a fault the rest is only taken, so that whoever adds does not wait for ever.
            if self._fault is None:
                try:
                    self._pour(encoded) if isinstance(encoded, Pipe) else self._send(encoded)
                except BaseException as error:  # noqa: BLE001 - it is raised again where rows are added
                    self._fault = error
            if isinstance(encoded, Pipe):
                encoded.close()
            else:
                encoded.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._context = self._connection.cursor().copy(self._statement.encode())
        self._writer = self._context.__enter__()

    def _pour(self, pipe: Pipe) -> None:
        """Everything as it comes, header and trailer included."""
        import psycopg

        piece = memoryview(bytearray(_PIECE))
        try:
            self._begin()
            self._trailed = True
            while size := pipe.read(piece):
                if pipe.path is not None:
                    pipe.forget()
                self._tell()
                self._writer.write(piece[:size])
        except (psycopg.Error, OSError) as error:
            self._context = None
            raise statement_error(error, self._subject) from error

    def _send(self, file: Path) -> None:
        import psycopg

        try:
            begun = self._writer is not None
            if not begun:
                self._begin()
            left = file.stat().st_size - len(_TRAILER)
            with file.open("rb") as stream:
                if begun:
                    stream.seek(_HEADER)
                    left -= _HEADER
                while left > 0 and (piece := stream.read(min(_PIECE, left))):
                    self._tell()
                    self._writer.write(piece)
                    left -= len(piece)
        except (psycopg.Error, OSError) as error:
            self._context = None
            raise statement_error(error, self._subject) from error

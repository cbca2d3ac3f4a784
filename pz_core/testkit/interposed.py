"""A connector with somebody in between: batches are changed on their way, and a commit is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import Receipt, SqlWriteSession
from pz_core.values import Column

if TYPE_CHECKING:
    import pyarrow as pa

#: Gives the batch to hand on, and what to do once it was taken.
Change = Callable[["pa.RecordBatch"], "tuple[pa.RecordBatch, Callable[[], None]]"]


class Interposed:
    """Hands everything on to a connector, but for the sessions of its sinks.

    Args:
        connector: the connector.
        on_batch: changes each batch on its way.
        before_commit: called before each commit.
    """

    def __init__(
        self, connector: Any, *, on_batch: Change | None = None, before_commit: Callable[[], None] | None = None
    ) -> None:
        self._connector = connector
        self._on_batch = on_batch
        self._before_commit = before_commit
        self.batches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def open_sink(self) -> Any:
        """A sink whose sessions are watched."""
        return _Sink(self._connector.open_sink(), self)

    def write(self, session: Any, batch: pa.RecordBatch) -> None:
        """Hand a batch on."""
        self.batches += 1
        if self._on_batch is None:
            session.write(batch)
            return
        changed, afterwards = self._on_batch(batch)
        session.write(changed)
        del changed
        afterwards()

    def commit(self, session: Any) -> Receipt:
        """Commit after whoever waits for it."""
        if self._before_commit is not None:
            self._before_commit()
        made: Receipt = session.commit()
        return made


class _Sink:
    def __init__(self, sink: Any, owner: Interposed) -> None:
        self._sink = sink
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def begin(self, spec: Any, columns: tuple[Column, ...]) -> Any:
        session = self._sink.begin(spec, columns)
        return (_SqlSession if isinstance(session, SqlWriteSession) else _Session)(session, self._owner)


class _Session:
    def __init__(self, session: Any, owner: Interposed) -> None:
        self._session = session
        self._owner = owner

    def write(self, batch: pa.RecordBatch) -> None:
        self._owner.write(self._session, batch)

    def commit(self) -> Receipt:
        return self._owner.commit(self._session)

    def abort(self) -> None:
        self._session.abort()


class _SqlSession(_Session):
    def __init__(self, session: Any, owner: Interposed) -> None:
        super().__init__(session, owner)
        self.staged = session.staged
        self.target = session.target
        self.order = session.order
        self.dialect = session.dialect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def columns(self) -> tuple[Column, ...] | None:
        made: tuple[Column, ...] | None = self._session.columns()
        return made

    def execute(self, sql: str) -> Iterator[pa.RecordBatch]:
        made: Iterator[pa.RecordBatch] = self._session.execute(sql)
        return made


def embedded(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Callable[[], None]]:
    """The same rows as a slice out of the middle of a larger batch."""
    import pyarrow as pa

    if batch.num_rows == 0:
        return batch, lambda: None
    table = pa.Table.from_batches([batch.slice(batch.num_rows - 1), batch, batch.slice(0, 1)]).combine_chunks()
    [whole] = table.to_batches()
    return whole.slice(1, batch.num_rows), lambda: None


def scribbled(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Callable[[], None]]:
    """The same rows in memory that is overwritten once they were taken."""
    import pyarrow as pa

    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    memory = bytearray(stream.getvalue())
    reader = pa.ipc.open_stream(pa.py_buffer(memory))
    made = reader.read_next_batch()
    del reader

    def overwrite() -> None:
        memory[:] = bytes(len(memory))

    return made, overwrite

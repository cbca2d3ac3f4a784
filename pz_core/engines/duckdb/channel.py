"""Readers on threads of their own, one bounded channel, one consumer.

Sources: engine.md 2.4 (four batches between them; the first fault stops all and is the one that is told).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pz_core.contract.connector import Partition

if TYPE_CHECKING:
    import pyarrow as pa

#: Batches that wait between the readers and the ingest.
CAPACITY = 4
#: Partitions read at once.
MAX_READERS = 4
#: How long a reader that was told to stop is waited for, before and after its source is closed under it.
GRACE_SECONDS = 2.0


class Stopped(Exception):
    """A reader found the channel stopped; never the fault itself."""


class Channel:
    """A bounded queue that either side can stop. Batches come out in the order in which they went in."""

    def __init__(self, producers: int) -> None:
        self._items: deque[pa.RecordBatch] = deque()
        self._state = threading.Condition()
        self._producers = producers
        self._stopped = False
        self.fault: BaseException | None = None
        self.producer_wait = 0.0
        self.consumer_wait = 0.0

    @property
    def stopped(self) -> bool:
        """Whether readers should end."""
        return self._stopped

    def put(self, batch: pa.RecordBatch) -> None:
        """Hand over a batch; waits while the channel is full.

        Raises:
            Stopped: if nobody wants it any more.
        """
        with self._state:
            if len(self._items) >= CAPACITY and not self._stopped:
                began = time.monotonic()
                self._state.wait_for(lambda: len(self._items) < CAPACITY or self._stopped)
                self.producer_wait += time.monotonic() - began
            if self._stopped:
                raise Stopped
            self._items.append(batch)
            self._state.notify_all()

    def finish(self, fault: BaseException | None = None) -> None:
        """A reader has ended; the first fault stops all others and is kept."""
        with self._state:
            self._producers -= 1
            if fault is not None and not self._stopped:
                self.fault = fault
                self._stopped = True
            self._state.notify_all()

    def stop(self) -> None:
        """Nobody reads on from here; whoever waits wakes up."""
        with self._state:
            self._stopped = True
            self._items.clear()
            self._state.notify_all()

    def take(self, rows: int, size: int) -> list[pa.RecordBatch]:
        """Wait for a batch, and take those that wait behind it up to ``rows`` rows and ``size`` bytes together.

        Returns:
            The batches, or an empty list when all readers have ended.

        Raises:
            Stopped: if the channel was stopped and no reader is at fault.
        """
        with self._state:
            if not self._items and self._producers and not self._stopped:
                began = time.monotonic()
                self._state.wait_for(lambda: bool(self._items) or not self._producers or self._stopped)
                self.consumer_wait += time.monotonic() - began
            if self.fault is not None:
                raise self.fault
            if self._stopped:
                raise Stopped
            taken: list[pa.RecordBatch] = []
            while self._items and rows > 0 and size > 0:
                following = self._items[0]
                rows, size = rows - following.num_rows, size - following.nbytes
                if taken and (rows < 0 or size < 0):
                    break
                taken.append(self._items.popleft())
            self._state.notify_all()
            return taken


class Readers:
    """Reads partitions on up to :data:`MAX_READERS` threads into a channel.

    Args:
        partitions: what to read.
        read: gives the batches of one partition.
    """

    def __init__(self, partitions: Sequence[Partition], read: Callable[[Partition], Iterator[pa.RecordBatch]]) -> None:
        self._todo = deque(partitions)
        self._read = read
        count = min(MAX_READERS, len(partitions))
        self.channel = Channel(count)
        self._threads = [threading.Thread(target=self._run, name=f"pz-read-{i}", daemon=True) for i in range(count)]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def close(self, release: Callable[[], None]) -> None:
        """Stop the readers, wait for them, and close the source; one that hangs is waited for once more after that."""
        self.channel.stop()
        self._join(GRACE_SECONDS)
        try:
            release()
        finally:
            self._join(GRACE_SECONDS)

    def _join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        fault: BaseException | None = None
        try:
            while not self.channel.stopped:
                try:
                    partition = self._todo.popleft()
                except IndexError:
                    break
                self._pump(partition)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again where the batches are consumed
            fault = error
        self.channel.finish(fault)

    def _pump(self, partition: Partition) -> None:
        batches = self._read(partition)
        try:
            for batch in batches:
                self.channel.put(batch)
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

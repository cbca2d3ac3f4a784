"""Carries events to observers. Each has a thread and a queue of its own, so that none can hold up a run or another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from queue import Empty, Full, Queue
from threading import Lock, Thread

from pz_core.contract.events import Event, NodeProgress
from pz_core.contract.observer import Observer
from pz_core.errors import Notice

#: Events that wait for one observer before further ones are dropped for it; progress gives way at half of that.
QUEUE_LENGTH = 65_536
#: How long the end of a run waits for all observers together, in seconds.
DRAIN_SECONDS = 5.0


class EventBus:
    """Publishes events in one order to all observers.

    Args:
        observers: who listens.
        queue_length: events that may wait for one of them.
    """

    def __init__(self, observers: Sequence[Observer], *, queue_length: int = QUEUE_LENGTH) -> None:
        self._order = Lock()
        self._closed = False
        self._listeners = [_Listener(observer, queue_length) for observer in observers]

    def publish(self, event: Event) -> None:
        """Hand an event to every observer; never waits and never raises. After :meth:`close` it does nothing."""
        with self._order:
            if not self._closed:
                for listener in self._listeners:
                    listener.offer(event)

    def close(self, seconds: float = DRAIN_SECONDS) -> tuple[Notice, ...]:
        """End the stream and wait for observers to catch up, at most so many seconds for all of them.

        Returns:
            What went wrong with observers: one that raised, one that did not finish, events that were dropped.
        """
        with self._order:
            self._closed = True
        deadline = time.monotonic() + seconds
        for listener in self._listeners:
            listener.end()
        return tuple(n for listener in self._listeners for n in listener.finish(deadline))


class _Listener:
    def __init__(self, observer: Observer, length: int) -> None:
        self._observer = observer
        self._name = str(getattr(observer, "name", type(observer).__name__))
        self._length = length
        self._queue: Queue[Event | None] = Queue(length + 1)  # one place is kept for the end of the stream
        self._dropped = 0
        self._failure: str | None = None
        self._thread = Thread(target=self._work, name=f"pz-observer-{self._name}", daemon=True)
        self._thread.start()

    def offer(self, event: Event) -> None:
        waiting = self._queue.qsize()
        if self._failure is not None or (isinstance(event, NodeProgress) and waiting > self._length // 2):
            return
        if waiting >= self._length:
            self._dropped += 1
            return
        self._queue.put_nowait(event)

    def end(self) -> None:
        try:
            self._queue.put_nowait(None)
        except Full:
            self._dropped += 1

    def finish(self, deadline: float) -> list[Notice]:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        notices: list[Notice] = []
        if self._failure is not None:
            text = f"observer '{self._name}' raised {self._failure} and was dropped; the run is not affected"
            notices.append(Notice("warning", text))
        elif self._thread.is_alive():
            left = self._dropped + self._left()
            text = f"observer '{self._name}' did not finish in time; {left} events were not shown"
            notices.append(Notice("warning", text))
        elif self._dropped:
            notices.append(
                Notice("warning", f"observer '{self._name}' was too slow; {self._dropped} events were not shown")
            )
        return notices

    def _left(self) -> int:
        left = 0
        while True:
            try:
                left += self._queue.get_nowait() is not None
            except Empty:
                return left

    def _work(self) -> None:
        try:
            while (event := self._queue.get()) is not None:
                self._observer.on_event(event)
            self._observer.close()
        except Exception as error:  # noqa: BLE001 - an observer may raise anything; it is told once and changes nothing
            self._failure = type(error).__name__

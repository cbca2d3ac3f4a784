"""A clock that stands until it is moved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock


class FakeClock:
    """Instants and seconds that pass only when a test says so. Safe to use from several threads.

    Handed to whatever takes a clock, it is read by :meth:`now`, :meth:`monotonic` and :meth:`time`, and :meth:`sleep`
    moves it instead of waiting. :meth:`installed` puts it in the place of the functions of :mod:`time`.

    Args:
        start: the instant that it stands at first, UTC.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
        self._passed = 0.0
        self._lock = threading.Lock()
        self.slept: list[float] = []

    def now(self) -> datetime:
        """The instant, UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def time(self) -> float:
        """Seconds since 1970, as ``time.time()``."""
        return self._start.timestamp() + self.monotonic()

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        with self._lock:
            return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: for a negative number; a clock that goes back is set up with another start.
        """
        if seconds < 0:
            raise ValueError("a clock does not go back")
        with self._lock:
            self._passed += seconds

    def sleep(self, seconds: float) -> None:
        """Pass the time at once, and remember in :attr:`slept` how long it was."""
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))

    @contextmanager
    def installed(self) -> Iterator[FakeClock]:
        """Let ``time.time``, ``time.monotonic``, ``time.perf_counter`` and ``time.sleep`` be this clock's meanwhile.

        It reaches code that calls them through the module, not a name that was imported from it before.
        """
        fakes: dict[str, Any] = {
            "time": self.time, "monotonic": self.monotonic, "perf_counter": self.monotonic, "sleep": self.sleep,
        }  # fmt: skip
        with mock.patch.multiple("time", **fakes):
            yield self

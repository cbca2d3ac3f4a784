"""A circuit breaker for each connection: after several transient failures it keeps calls away for a while."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Literal

from msgspec import Struct

from pz_core.project.model import BreakerSettings
from pz_core.run.cancel import monotonic_ms

State = Literal["closed", "open", "half_open"]
#: ``(old state, new state, what caused it, cool-down in ms or 0)``.
Listener = Callable[[State, State, str, int], None]


class Ticket(Struct, frozen=True):
    """An admitted call. Its outcome counts only while no trip lies between."""

    epoch: int
    probe: bool


class Breaker:
    """Closed, open, half-open. Safe to use from several threads.

    Args:
        settings: threshold and cool-down.
        changed: told of every change of state, in order.
        clock: milliseconds, for tests.
    """

    def __init__(
        self, settings: BreakerSettings, changed: Listener | None = None, clock: Callable[[], int] = monotonic_ms
    ) -> None:
        self._settings = settings
        self._changed = changed or (lambda *_: None)
        self._clock = clock
        self._lock = Lock()
        self._state: State = "closed"
        self._failures = 0
        self._epoch = 0
        self._open_until = 0
        self._probing = False

    @property
    def state(self) -> State:
        """The present state; ``open`` until somebody asks after the cool-down."""
        return self._state

    def admit(self) -> Ticket | int:
        """Let a call through, or say after how many milliseconds to ask again."""
        with self._lock:
            if self._state == "open":
                left = self._open_until - self._clock()
                if left > 0:
                    return left
                self._go("half_open", "cool_down", 0)
            if self._state == "half_open":
                if self._probing:
                    return self._settings.cool_down_ms
                self._probing = True
                return Ticket(self._epoch, True)
            return Ticket(self._epoch, False)

    def succeeded(self, ticket: Ticket) -> None:
        """The call went well: a probe closes the breaker, any other forgets the failures so far."""
        with self._lock:
            if ticket.epoch != self._epoch:
                return
            self._failures = 0
            if ticket.probe:
                self._probing = False
                self._go("closed", "probe_succeeded", 0)

    def failed(self, ticket: Ticket, retry_after: float | None = None) -> None:
        """The call failed transiently: the threshold, or a probe, opens the breaker.

        Args:
            ticket: of the call.
            retry_after: seconds that the place asked for; the breaker stays open at least as long.
        """
        with self._lock:
            if ticket.epoch != self._epoch:
                return
            self._failures += 1
            if ticket.probe or self._failures >= self._settings.failure_threshold:
                length = max(self._settings.cool_down_ms, round((retry_after or 0) * 1000))
                self._epoch += 1
                self._failures = 0
                self._probing = False
                self._open_until = self._clock() + length
                self._go("open", "probe_failed" if ticket.probe else "failure_threshold", length)

    def ended(self, ticket: Ticket) -> None:
        """The call ended otherwise (a permanent failure, a cancellation): a probe's place becomes free again."""
        with self._lock:
            if ticket.probe and ticket.epoch == self._epoch:
                self._probing = False

    def _go(self, state: State, trigger: str, length: int) -> None:
        old, self._state = self._state, state
        self._changed(old, state, trigger, length)

"""Stopping a run: a token that tasks watch, and the signals that turn it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class CancelToken:
    """Says once, to whoever watches it, that work should stop. Safe to use from several threads.

    Args:
        parent: a token whose cancellation is this one's too.
    """

    def __init__(self, parent: CancelToken | None = None) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self._detach = parent.on_cancel(self.cancel) if parent is not None else lambda: None

    @property
    def cancelled(self) -> bool:
        """Whether work should stop."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Tell everybody, once. A callback that raises does not keep the others from being told."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            _quietly(callback)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have something called on cancellation, at once if it has happened; gives back what takes it back."""
        with self._lock:
            if not self._event.is_set():
                key = self._next
                self._next += 1
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        _quietly(callback)
        return lambda: None

    def wait(self, seconds: float) -> bool:
        """Sleep, but not past a cancellation; gives whether it happened."""
        return self._event.wait(seconds)

    def detach(self) -> None:
        """Stop listening to the parent."""
        self._detach()

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


def _quietly(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - an interrupt that fails must not keep other nodes running
        return


class StopSignals:
    """While entered, the first SIGINT, SIGTERM or SIGHUP cancels a token; the second ends the process at once.

    Handlers can be set in the main thread only; elsewhere entering does nothing. What was set before is restored.

    Args:
        token: what to cancel.
    """

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._before: dict[int, Any] = {}
        self._heard = threading.Event()
        self._over = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            # The handler itself only sets an event: it may have interrupted code of this very thread that holds a lock.
            threading.Thread(target=self._listen, name="pz-signals", daemon=True).start()
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # ignored on purpose, as by nohup
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._over = True
        self._heard.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        self._heard.set()

    def _listen(self) -> None:
        self._heard.wait()
        if not self._over:
            self._token.cancel()


def monotonic_ms() -> int:
    """Milliseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000_000

"""Signals before and after the part of a run that handles them itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_NAMES = ("SIGTERM", "SIGHUP")


@contextmanager
def stop_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop the work as Ctrl-C does: with a message and exit 3 instead of a silent death."""
    before: dict[int, object] = {}
    try:
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _stop)
    except ValueError:
        pass  # not the main thread: signals are somebody else's
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt

"""Python's cyclic collector, kept out of the way of stages that make many objects which all live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the cyclic collector, which would look at a stage's many live objects again and again.

    That can take longer than the stage itself.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()

"""Writing to stdout and stderr so that a reader who leaves, or an odd encoding, breaks nothing."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import TextIO


def prepare_streams() -> None:
    """Make stdout and stderr UTF-8 with LF line ends, whatever the locale says; what has no UTF-8 form is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def emit(text: str, *, err: bool = False) -> None:
    """Write a text and a line end at once.

    A reader who has gone (``pz ls | head``) is no fault: from then on the rest goes nowhere and the work goes on.

    Args:
        text: what to write, without the last line end.
        err: to stderr instead of stdout.

    Raises:
        OSError: for any other failure, such as a full disk.
    """
    write(sys.stderr if err else sys.stdout, text + "\n")


def write(stream: TextIO | None, text: str) -> None:
    """Write to a stream and flush it; see :func:`emit`."""
    if stream is None or stream.closed:
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _to_nowhere(stream)


def flush_all() -> None:
    """Flush both streams; a reader who has gone is no fault.

    Raises:
        OSError: for any other failure.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            try:
                stream.flush()
            except BrokenPipeError:
                _to_nowhere(stream)


def forget_stdout() -> None:
    """Send what is still to come nowhere: its reader has left."""
    if sys.stdout is not None and not sys.stdout.closed:
        _to_nowhere(sys.stdout)


def _to_nowhere(stream: TextIO) -> None:
    """Point the stream's descriptor at the null device: the interpreter flushes once more when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
    except (OSError, io.UnsupportedOperation):
        pass


def is_interactive(environ: Mapping[str, str], stream: TextIO | None) -> bool:
    """Whether a live view is welcome: a terminal, and nothing in the environment that asks for plain lines.

    ``CI`` counts with any value, even an empty one; ``NO_COLOR`` when it is not empty.
    """
    if environ.get("NO_COLOR") or "CI" in environ or environ.get("TERM") == "dumb":
        return False
    return stream is not None and not stream.closed and stream.isatty()

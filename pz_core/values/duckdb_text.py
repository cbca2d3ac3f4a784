"""DuckDB's error texts, made fit for a user: without the statement that DuckDB echoes and without lines of data.

Sources: texts of DuckDB 1.5.5 as observed (``LINE n: …`` with a caret below, the csv reader's ``Original Line: …``).
"""

from __future__ import annotations

import re

#: Where DuckDB begins to echo the failing statement. It is always at the start of a line, after an empty one.
_ECHO = re.compile(r"(?m)^LINE \d+:")
#: A raw line of a user's file, which the csv reader shows; data must not stand in a message.
_RAW_LINE = re.compile(r"(?m)^Original Line:.*$")


def before_echo(text: str) -> str:
    """The part of a message that stands before the echoed statement, its own line breaks kept."""
    match = _ECHO.search(text)
    return text[: match.start()] if match else text


def clean_message(text: str) -> str:
    """A message without the echoed statement (``LINE n: …`` and the caret) and without empty lines.

    Args:
        text: what ``str()`` of a DuckDB error gives.

    Returns:
        The message, first line first, its lines stripped of surrounding space.
    """
    kept = _RAW_LINE.sub("", before_echo(text))
    return "\n".join(line.strip() for line in kept.splitlines() if line.strip())


def first_line(text: str) -> str:
    """The first line of :func:`clean_message`."""
    return clean_message(text).partition("\n")[0]

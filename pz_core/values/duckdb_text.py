"""DuckDB's error texts, made fit for a user: without the statement that DuckDB echoes and without lines of data.

Sources: texts of DuckDB 1.5.5 as observed (``LINE n: …`` with a caret below, the csv reader's ``Original Line: …``).
"""

from __future__ import annotations

import re

#: Where DuckDB begins to echo the failing statement. It is always at the start of a line, after an empty one.
_ECHO = re.compile(r"(?m)^LINE \d+:")
#: A raw line of a user's file, which the csv reader shows; data must not stand in a message.
_RAW_LINE = re.compile(r"(?m)^Original Line:.*$")
#: Texts in which DuckDB shows a value, with what is left of them.
_VALUES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(could not convert (?:string|value)) (['\"]).*\2 (to )", re.IGNORECASE | re.DOTALL), r"\1 \3"),
    (re.compile(r"(Failed to cast value: ).*", re.DOTALL), r"\1the value does not fit"),
    (re.compile(r"(Could not cast value) .* (to [A-Z][A-Z0-9_(), ]*)", re.DOTALL), r"\1 \2"),
    (re.compile(r"( with value) .*? (can't be cast|that cannot be cast|out of range)", re.DOTALL), r" \2"),
    (re.compile(r"(field) .*? (out of range)", re.IGNORECASE | re.DOTALL), r"\1 \2"),
    (re.compile(r"(Overflow in \w+ of [^(]+(?:\(\d+\))?) \(.*\)", re.DOTALL), r"\1"),
    (re.compile(r"(out of range): [-+0-9][^\n]*", re.IGNORECASE), r"\1"),
)
#: Kinds of faults that are about data: what stands between double quotes in them is a value, not a name.
_OF_DATA = re.compile(r"(?:Conversion|Invalid Input|Out of Range|Constraint) Error: ")
#: The one name that they quote, before any value.
_COLUMN = re.compile(r'[^"]*\bcolumn "[^"\n]*"')
_AFTER_VALUE = re.compile(r"(?:,? [^:\"\n]*)?")


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


def without_values(text: str) -> str:
    """A message from which the values that DuckDB shows are taken out; names of columns, types and files stay.

    Args:
        text: what :func:`clean_message` gives.
    """
    for pattern, kept in _VALUES:
        text = pattern.sub(kept, text)
    if not _OF_DATA.match(text):
        return text
    named = _COLUMN.match(text)
    start = named.end() if named else 0
    first, last = text.find('"', start), text.rfind('"')
    if first < 0:
        return text
    tail = _AFTER_VALUE.match(text, last + 1)
    return text[:first].rstrip(" :") + (tail[0] if tail else "")

"""How verbs speak: results to stdout, as text or as one JSON document; errors, warnings and notes to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pz_core.errors import Notice
from pz_core.render.stream import emit
from pz_core.render.text import clean


def say(text: str) -> None:
    """Print a line of the result."""
    emit(clean(text))


def say_all(lines: Iterable[str]) -> None:
    """Print the result in one go, so that it is whole or not there."""
    text = "\n".join(clean(line) for line in lines)
    if text:
        emit(text)


def say_json(document: object) -> None:
    """Print the one JSON document of a verb."""
    emit(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=_plain))


def tell(line: str) -> None:
    """Print a line on stderr."""
    emit(clean(line), err=True)


def tell_notices(notices: Iterable[Notice]) -> None:
    """Print warnings and notes on stderr, each once."""
    for line in dict.fromkeys(notice.render() for notice in notices):
        tell(line)


def note(message: str) -> None:
    """Print a note on stderr."""
    tell(Notice("note", message).render())


def table(rows: Sequence[Sequence[str]], widths: Sequence[int], head: Sequence[str] | None = None) -> list[str]:
    """Rows as aligned columns.

    Args:
        rows: cells; the last column is not padded.
        widths: least width of each column but the last.
        head: titles of the columns.
    """
    every = [list(head), *rows] if head else list(rows)
    fitted = [max([least, *(len(clean(row[i])) for row in every)]) for i, least in enumerate(widths)]
    return [
        " ".join([*(f"{clean(cell):<{fitted[i]}}" for i, cell in enumerate(row[:-1])), clean(row[-1])]).rstrip()
        for row in every
    ]


def wants_json(argv: Sequence[str]) -> bool:
    """Whether ``--json`` was asked for; read from the bare arguments, since parsing them may be what failed."""
    options = list(argv)
    return "--json" in (options[: options.index("--")] if "--" in options else options)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")

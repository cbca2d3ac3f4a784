"""The leading ``INSERT INTO {{ sink(…) }}``: where it may stand, and the query behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pz_core.compile.sqltext import normalise, skip_blank
from pz_core.errors import Problems

if TYPE_CHECKING:
    from pz_core.compile.rendered import Rendered, SinkCall

_WORD = re.compile(r"[^\W\d]\w*")
_SHAPE_HINT = (
    "lead the pipeline with INSERT INTO {{ sink('connection', 'entity') }}, or with several as "
    "INSERT INTO [{{ sink(…) }}, {{ sink(…) }}], then a space or a line end, then the query"
)


def split_insert(rendered: Rendered, problems: Problems) -> str:
    """The pipeline's normalised query, without its leading INSERT INTO; every misplaced ``sink()`` is PZ0208.

    Comments and whitespace before the INSERT go with it; comments behind it are part of the query.
    """
    pipeline = rendered.pipeline
    if not rendered.sinks:
        return normalise(rendered.text)
    if pipeline.sidecar.materialization == "ephemeral":
        for call in rendered.sinks:
            problems.error(
                "PZ0208",
                f"pipeline '{pipeline.name}' is ephemeral and cannot load {_output(call)}",
                where=call.where,
                hint=f"set materialization: table or view in the sidecar of '{pipeline.name}', or load from a pipeline "
                f"that refs it",
            )
        return normalise(rendered.text)
    claimed, end = _markers(rendered)
    seen: set[tuple[str, str]] = set()
    for call in rendered.sinks:
        key = (call.connection, call.entity)
        if key in seen:
            problems.error(
                "PZ0208",
                f"pipeline '{pipeline.name}' loads {_output(call)} twice",
                where=call.where,
                hint="name each output once",
            )
        elif call.marker not in claimed or call.marker in rendered.text[end:]:
            problems.error(
                "PZ0208",
                f"pipeline '{pipeline.name}': sink() of {_output(call)} is not in the leading INSERT INTO",
                where=call.where,
                hint=_SHAPE_HINT,
            )
        seen.add(key)
    return normalise(rendered.text[end:].lstrip())


def _output(call: SinkCall) -> str:
    return f"{call.connection}.{call.entity}"


def _markers(rendered: Rendered) -> tuple[frozenset[str], int]:
    """Markers of a well-formed prefix and the offset behind it; nothing and 0 where the prefix is malformed."""
    text = rendered.text
    nothing: tuple[frozenset[str], int] = (frozenset(), 0)
    at = skip_blank(text, 0)
    for word in ("insert", "into"):
        match = _WORD.match(text, at)
        if match is None or match[0].lower() != word:
            return nothing
        after = skip_blank(text, match.end())
        if after == match.end() and text[after : after + 1] != "[":
            return nothing
        at = after
    if text[at : at + 1] != "[":
        marker = _marker_at(rendered, at)
        if marker is None:
            return nothing
        return _closed(text, at + len(marker), frozenset((marker,)))
    found: list[str] = []
    while True:
        at = skip_blank(text, at + 1)
        marker = _marker_at(rendered, at)
        if marker is None:
            return nothing
        found.append(marker)
        at = skip_blank(text, at + len(marker))
        if text[at : at + 1] == "]":
            return _closed(text, at + 1, frozenset(found))
        if text[at : at + 1] != ",":
            return nothing


def _marker_at(rendered: Rendered, at: int) -> str | None:
    # Longest first: the marker of `a` may be a beginning of that of another entity.
    fitting = [c.marker for c in rendered.sinks if rendered.text.startswith(c.marker, at)]
    return max(fitting, key=len) if fitting else None


def _closed(text: str, end: int, found: frozenset[str]) -> tuple[frozenset[str], int]:
    separated = skip_blank(text, end) > end
    return (found, end) if separated else (frozenset(), 0)

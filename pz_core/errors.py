"""Coded errors: structure first, text last.

Every fault that a user can cause or meet is a :class:`PzError` with a code of the table in
:mod:`pz_core.codes`. A stage collects all it finds in :class:`Problems` and raises them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

Severity = Literal["error", "warning", "note"]


class Where(Struct, frozen=True, order=True):
    """A place that a message speaks of: a project file (with a 1-based line), or a node of the graph.

    Args:
        file: path relative to the project, with forward slashes.
        line: 1-based line in that file.
        node: name of a node, used instead of a file for what happens at run time.
    """

    file: str | None = None
    line: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        if self.file is not None:
            return self.file if self.line is None else f"{self.file}:{self.line}"
        return self.node or ""

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """File first (none before any), then line (none before any), then node."""
        return (self.file or "", self.line or 0, self.node or "")


#: Shorter texts, and numbers, stand in too many messages by chance to be looked for.
_SHORTEST_WITHHELD = 4
#: A text this long is taken out of longer words too.
_SURE = 8
#: A longer message is cut where it is printed.
_LONGEST_TEXT = 4_000
_withheld: dict[str, str] = {}
_withheld_pattern: list[re.Pattern[str]] = []


def withhold(values: Mapping[str, str], *, afresh: bool = False) -> None:
    """Name texts that no message may show: what came in from the environment, and secrets.

    Every error and notice made from now on has the stand-in in the place of the text, whoever words it: a connector, a
    driver and DuckDB do not know what they must not repeat.

    Args:
        values: text to stand-in, such as ``${PG_PASSWORD}``.
        afresh: forget what was named before; another project is loaded.
    """
    if afresh:
        _withheld.clear()
    for text, shown in values.items():
        if len(text) >= _SHORTEST_WITHHELD and not text.isdigit():
            _withheld.setdefault(text, shown)
    _withheld_pattern[:] = [re.compile("|".join(_bounded(text) for text in sorted(_withheld, key=len, reverse=True)))]


def without_withheld(text: str) -> str:
    """A text with stand-ins in the place of what :func:`withhold` named."""
    if not _withheld or not text:
        return text
    return _withheld_pattern[0].sub(lambda match: _withheld[match[0]], text)


def _bounded(text: str) -> str:
    escaped = re.escape(text)
    if len(text) >= _SURE:
        return escaped
    return rf"(?<![A-Za-z0-9_]){escaped}(?![A-Za-z0-9_])"


def one_line(text: str) -> str:
    """Fold a text of several lines into one, so that an error stays on a line of its own."""
    return " ".join(part.strip() for part in text.splitlines() if part.strip())


class PzError(Exception):
    """One fault, with a code, a place, a way out and a cause.

    Args:
        code: a row of the table of codes, such as ``PZ0206``.
        message: what is wrong. Never holds a secret or a value of the data.
        where: the place it speaks of.
        hint: what to do about it.
        cause: the exception behind it, for ``PZ_DEBUG`` only; it is not shown.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: Where | None = None,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        message = without_withheld(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where or Where()
        self.hint = None if hint is None else without_withheld(hint)
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self._state()))

    def _state(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "where": self.where, "hint": self.hint}

    def at(self, where: Where) -> PzError:
        """The same fault at another place."""
        self.where = where
        return self

    def as_dict(self) -> dict[str, Any]:
        """The fault as JSON-ready data (code, message, file, line, node, hint; absent parts left out)."""
        parts = {
            "code": self.code,
            "message": self.message,
            "file": self.where.file,
            "line": self.where.line,
            "node": self.where.node,
            "hint": self.hint,
        }
        return {k: v for k, v in parts.items() if v is not None}

    def render(self) -> str:
        """``error PZ0206: message (pipelines/a.sql:1) - hint: what to do``, on one line."""
        return render_line("error", self.code, self.message, self.where, self.hint)

    def __str__(self) -> str:
        return self.render()


def _rebuild(kind: type[PzError], state: dict[str, Any]) -> PzError:
    made = kind.__new__(kind)
    Exception.__init__(made, state["message"])
    made.__dict__.update(state)
    made.cause = None
    return made


def render_line(severity: Severity, code: str | None, message: str, where: Where, hint: str | None) -> str:
    """The one shape of every error, warning and note on stderr."""
    head = f"{severity} {code}" if code and severity != "note" else severity
    place = f" ({where})" if str(where) else ""
    tail = f" - hint: {_cut(one_line(hint))}" if hint else ""
    return f"{head}: {_cut(one_line(message))}{place}{tail}"


def _cut(text: str) -> str:
    """A text that a name or a statement of a million characters has swollen, without its middle."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} … {text[-half:]}"


class Notice(Struct, frozen=True):
    """A warning or a note: never changes an exit code."""

    severity: Severity
    message: str
    code: str | None = None
    where: Where = Where()
    hint: str | None = None

    def __post_init__(self) -> None:
        """Take out what may not be shown."""
        force_setattr(self, "message", without_withheld(self.message))
        if self.hint is not None:
            force_setattr(self, "hint", without_withheld(self.hint))

    def render(self) -> str:
        """``warning PZ0208: …`` or ``note: …``, on one line."""
        return render_line(self.severity, self.code, self.message, self.where, self.hint)

    def as_dict(self) -> Mapping[str, Any]:
        """The notice as JSON-ready data."""
        parts = {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "file": self.where.file,
            "line": self.where.line,
            "node": self.where.node,
            "hint": self.hint,
        }
        return {k: v for k, v in parts.items() if v is not None}


class PzErrors(Exception):
    """All faults that one stage found, sorted by file and line."""

    def __init__(self, errors: Iterable[PzError], notices: Iterable[Notice] = ()) -> None:
        self.errors: tuple[PzError, ...] = tuple(sorted(errors, key=lambda e: e.where.sort_key))
        self.notices: tuple[Notice, ...] = tuple(notices)
        super().__init__("\n".join(e.render() for e in self.errors))

    def __iter__(self) -> Iterator[PzError]:
        return iter(self.errors)


class Problems:
    """Collects the faults and notices of one stage; :meth:`raise_if_any` ends the stage."""

    def __init__(self) -> None:
        self.errors: list[PzError] = []
        self.notices: list[Notice] = []

    def error(self, code: str, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        """Add a fault."""
        self.errors.append(PzError(code, message, where=where, hint=hint))

    def add(self, error: PzError | PzErrors) -> None:
        """Add a fault, or all of a stage's, that somebody raised."""
        if isinstance(error, PzErrors):
            self.errors.extend(error.errors)
            self.notices.extend(error.notices)
        else:
            self.errors.append(error)

    def warn(self, code: str, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        """Add a warning."""
        self.notices.append(Notice("warning", message, code, where or Where(), hint))

    def note(self, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        """Add a note."""
        self.notices.append(Notice("note", message, None, where or Where(), hint))

    @property
    def any(self) -> bool:
        """Whether a fault was added."""
        return bool(self.errors)

    def raise_if_any(self) -> None:
        """Raise all faults together, with the notices found so far.

        Raises:
            PzErrors: if any fault was added.
        """
        if self.errors:
            raise PzErrors(self.errors, self.notices)

"""Rendered SQL as text: which characters are code, how a query is trimmed, and where its WITH stands.

Nothing here parses SQL. A mask of the same length shows code as it stands, comments as spaces and quoted text as
quotes, so that plain regular expressions with offsets of the original see only code. Quoting is DuckDB's.
"""

from __future__ import annotations

import re

_OPENER = re.compile(
    r"""--[^\n]*
    |/\*
    |(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)
    |'(?:[^']|'')*(?:'|\Z)
    |"(?:[^"]|"")*(?:"|\Z)
    |(?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_NOT_NEWLINE = re.compile(r"[^\n]")
_WITH = re.compile(r"\s*with\b(?:\s+recursive\b)?", re.IGNORECASE)


def mask(sql: str) -> str:
    """Text of the same length in which comments are spaces (line ends kept) and quoted text is made of quotes."""
    made: list[str] = []
    done = 0
    while True:
        match = _OPENER.search(sql, done)
        if match is None:
            made.append(sql[done:])
            return "".join(made)
        made.append(sql[done : match.start()])
        head = match[0][:2]
        end = _end_of_block(sql, match.start()) if head == "/*" else match.end()
        inside = sql[match.start() : end]
        made.append(_NOT_NEWLINE.sub(" ", inside) if head in ("--", "/*") else "'" * len(inside))
        done = end


def _end_of_block(sql: str, start: int) -> int:
    depth = 0
    for edge in _BLOCK_EDGE.finditer(sql, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(sql)


def skip_blank(sql: str, start: int) -> int:
    """Offset of the first character at or after ``start`` that is neither whitespace nor in a comment."""
    at = start
    while at < len(sql):
        if sql[at].isspace():
            at += 1
        elif sql.startswith("--", at):
            line_end = sql.find("\n", at)
            at = len(sql) if line_end < 0 else line_end
        elif sql.startswith("/*", at):
            at = _end_of_block(sql, at)
        else:
            break
    return at


def normalise(sql: str) -> str:
    """A query without trailing whitespace and without its one trailing semicolon.

    A semicolon counts as trailing when only whitespace and comments follow. Line ends are left alone: the file was read
    with LF, and whatever a variable brought into a literal is a value, which must not change.
    """
    text = sql.rstrip()
    if ";" not in text:
        return text
    seen = mask(text).rstrip()
    if seen.endswith(";"):
        at = len(seen) - 1
        text = (text[:at] + text[at + 1 :]).rstrip()
    return text


def second_statement(sql: str) -> int | None:
    """Offset of a semicolon that a normalised query still holds outside comments and quotes, if there is one."""
    at = mask(sql).find(";") if ";" in sql else -1
    return at if at >= 0 else None


def ends_in_line_comment(sql: str) -> bool:
    """Whether text put right behind would fall into a ``--`` comment."""
    last = sql[sql.rfind("\n") + 1 :]
    if "--" not in last:
        return False
    # A line comment swallows a probe put behind it; any other ending leaves the probe in sight.
    return not mask(sql + "x").endswith("x")


def with_clause(sql: str) -> int | None:
    """Offset right behind a leading ``WITH`` or ``WITH RECURSIVE``, comments before it passed over; else ``None``."""
    match = _WITH.match(mask(sql))
    return match.end() if match else None

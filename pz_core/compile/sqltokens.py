"""Tokens of SQL with their places, for splicing into a user's own text without printing it anew."""

from __future__ import annotations

import re
from bisect import bisect_left

from msgspec import Struct

_TOKEN = r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<block>/\*)
    | (?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<dollar>\$(?P<tag>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$.*?\$(?(tag)(?P=tag))\$)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
    | (?P<number>\d[A-Za-z0-9_.]*)
    | (?P<mark>.)
"""
_BLOCK_MARK = re.compile(r"/\*|\*/")
#: Words that end a condition where they stand outside brackets.
_CLAUSE_WORDS = """
    where on group order having limit offset window qualify union intersect except using fetch join inner full cross
    natural asof positional semi anti left right select from and by
"""
_CLAUSES = frozenset(_CLAUSE_WORDS.split())
#: The same words name functions where a bracket follows.
_ALSO_FUNCTIONS = frozenset({"left", "right"})


class SqlToken(Struct, frozen=True):
    """A token: its text in lower case for words, where it starts and ends, in characters."""

    kind: str
    text: str
    start: int
    end: int


class SqlTokens:
    """A text of SQL, cut into tokens without comments and white space."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = _tokens(sql)
        self._starts = [token.start for token in self.tokens]
        self._bytes = None if sql.isascii() else sql.encode()

    def at_byte(self, location: int) -> int | None:
        """Number of the token that starts at a UTF-8 byte, if one does."""
        place = location if self._bytes is None else len(self._bytes[:location].decode(errors="replace"))
        return self.at(place)

    def at(self, place: int) -> int | None:
        """Number of the token that starts at a character, if one does."""
        number = bisect_left(self._starts, place)
        return number if number < len(self._starts) and self._starts[number] == place else None

    def condition(self, number: int) -> tuple[int, int]:
        """First and last token of the condition that a token belongs to: brackets and clause words end it."""
        first = last = number
        depth = 0
        while first > 0:
            token = self.tokens[first - 1]
            if token.text in (")", "]", "}") or (token.kind == "word" and token.text == "end"):
                depth += 1
            elif token.text in ("(", "[", "{") or (token.kind == "word" and token.text == "case"):
                depth -= 1
            if depth < 0 or (depth == 0 and self._ends(first - 1)):
                break
            first -= 1
        depth = 0
        while last + 1 < len(self.tokens):
            token = self.tokens[last + 1]
            if token.text in ("(", "[", "{") or (token.kind == "word" and token.text == "case"):
                depth += 1
            elif token.text in (")", "]", "}") or (token.kind == "word" and token.text == "end"):
                depth -= 1
            if depth < 0 or (depth == 0 and self._ends(last + 1)):
                break
            last += 1
        return first, last

    def _ends(self, number: int) -> bool:
        token = self.tokens[number]
        if token.text in (",", ";"):
            return True
        if token.kind != "word" or token.text not in _CLAUSES:
            return False
        follower = self.tokens[number + 1].text if number + 1 < len(self.tokens) else ""
        return not (token.text in _ALSO_FUNCTIONS and follower == "(")

    def text(self, first: int, last: int) -> str:
        """The text from one token to another, with what stands between them."""
        return self.sql[self.tokens[first].start : self.tokens[last].end]


def _tokens(sql: str) -> list[SqlToken]:
    made: list[SqlToken] = []
    pos = 0
    token = re.compile(_TOKEN, re.VERBOSE | re.DOTALL)  # here, since a run whose compilation is kept needs none
    while (found := token.match(sql, pos)) is not None:
        kind = found.lastgroup or ""
        pos = found.end()
        if kind == "block":
            pos = _block_end(sql, pos)
        elif kind != "space":
            text = found.group().lower() if kind == "word" else found.group()
            made.append(SqlToken(kind, text, found.start(), pos))
    return made


def _block_end(sql: str, pos: int) -> int:
    depth = 1
    while depth and (mark := _BLOCK_MARK.search(sql, pos)) is not None:
        depth += 1 if mark.group() == "/*" else -1
        pos = mark.end()
    return len(sql) if depth else pos

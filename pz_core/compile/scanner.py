"""Cuts a pipeline's text into SQL, SQL comments and islands of template code, before any of it is rendered.

SQL decides where a comment stands, so SQL's own quoting is followed here: ``'…'``, ``"…"``, ``E'…'`` and
``$tag$…$tag$``. Strings open and close in the text as written; islands inside strings are islands. What stands in a
comment is handed on untouched.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field

from pz_core.compile.faults import LITERAL_BRACES, Fault

CLOSE_ON_THE_LINE = (
    "close it with }} on the line where it was opened, or move its options to connections.yml; " + LITERAL_BRACES
)


class Kind(Enum):
    """What a piece of the text is."""

    SQL = "sql"
    COMMENT = "comment"
    EXPRESSION = "expression"
    STATEMENT = "statement"


#: A token of an island: kind, spelling and line.
RawToken: TypeAlias = tuple[str, str, int]


class Piece(Struct):
    """A stretch of a pipeline's text; ``text`` for SQL and comments, ``tokens`` for islands."""

    kind: Kind
    line: int
    text: str = ""
    tokens: list[RawToken] = field(default_factory=list)


_NAME_END = r"(?<![A-Za-z0-9_$\x80-\U0010ffff])"
#: Where plain SQL stops being plain.
_SQL = re.compile(
    rf"""
      (?P<line>--[^\n]*\n?)
    | (?P<block>/\*)
    | (?P<island>\{{[{{%\#])
    | (?P<escaped>{_NAME_END}[eE]')
    | (?P<quoted>['"])
    | (?P<dollar>{_NAME_END}\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
    """,
    re.VERBOSE,
)
_BLOCK_MARK = re.compile(r"/\*|\*/")
#: What counts inside a string, by the mark that opened it: an island, an escape to step over, or the end.
_INSIDE = {
    "'": re.compile(r"(?P<island>\{[{%#])|''|(?P<end>')"),
    '"': re.compile(r'(?P<island>\{[{%#])|""|(?P<end>")'),
    "e'": re.compile(r"(?P<island>\{[{%#])|\\.|''|(?P<end>')", re.DOTALL),
}
_NOTE_END = re.compile(r"([-+]?)#\}")
_TOKENS = r"""
    | (?P<space>\s+)
    | (?P<float>(?<!\.)\d[\d_]*(?:\.\d[\d_]*(?:[eE][+-]?\d+)?|[eE][+-]?\d+))
    | (?P<integer>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*)
    | (?P<name>[^\W\d]\w*)
    | (?P<string>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~()\[\]{}<>=.:|,;])
    """
_EXPRESSION = re.compile(r"(?P<close>-?\}\})" + _TOKENS, re.VERBOSE | re.DOTALL)
_STATEMENT = re.compile(r"(?P<close>[-+]?%\})" + _TOKENS, re.VERBOSE | re.DOTALL)
#: Inside brackets the closing marks are operators: ``{ a: { b: 1 }}`` does not end an island.
_BRACKETED = re.compile(r"(?P<close>(?!))" + _TOKENS, re.VERBOSE | re.DOTALL)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def normalise(text: str) -> str:
    """Line ends as LF, whatever the file has."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def scan(text: str, faults: list[Fault]) -> list[Piece]:
    """Pieces of a text with LF line ends, in order.

    Args:
        text: a pipeline as written.
        faults: gets what is wrong with islands; a broken island is left out and the scan goes on behind it.
    """
    return _Scanner(text, faults).run()


class _Scanner:
    def __init__(self, text: str, faults: list[Fault]) -> None:
        self.text = text
        self.faults = faults
        self.pieces: list[Piece] = []
        self.begin = 0  # where the SQL that is not yet handed on starts
        self.lstrip = False
        self._counted = (0, 1)

    def run(self) -> list[Piece]:
        text = self.text
        if "{" not in text:
            return [Piece(Kind.SQL, 1, text)]
        pos = 0
        while (found := _SQL.search(text, pos)) is not None:
            kind = found.lastgroup
            if kind == "island":
                pos = self._island(found.start())
            elif kind == "line":
                pos = self._comment(found.start(), found.end())
            elif kind == "block":
                pos = self._comment(found.start(), self._block_end(found.end()))
            elif kind == "dollar":
                tag = re.escape(found.group())
                pos = self._string(found.end(), re.compile(rf"(?P<island>\{{[{{%#])|(?P<end>{tag})"))
            else:
                pos = self._string(found.end(), _INSIDE[found.group().lower()])
        self._sql(len(text))
        return self.pieces

    def _line(self, pos: int) -> int:
        at, line = self._counted
        line += self.text.count("\n", at, pos)
        self._counted = (pos, line)
        return line

    def _sql(self, end: int) -> None:
        """Hand on the SQL between the last piece and ``end``."""
        chunk = self.text[self.begin : end]
        if self.lstrip:
            chunk = chunk.lstrip()
        if chunk:
            self.pieces.append(Piece(Kind.SQL, 0, chunk))
            self.lstrip = False

    def _comment(self, start: int, end: int) -> int:
        self._sql(start)
        # The line end that closes a comment belongs to it: stripping it would comment out what follows.
        self.pieces.append(Piece(Kind.COMMENT, 0, self.text[start:end]))
        self.lstrip = False
        self.begin = end
        return end

    def _block_end(self, pos: int) -> int:
        depth = 1
        while depth and (mark := _BLOCK_MARK.search(self.text, pos)) is not None:
            depth += 1 if mark.group() == "/*" else -1
            pos = mark.end()
        return len(self.text) if depth else pos

    def _string(self, pos: int, marks: re.Pattern[str]) -> int:
        while (found := marks.search(self.text, pos)) is not None:
            if found.lastgroup == "end":
                return found.end()
            pos = self._island(found.start()) if found.lastgroup == "island" else found.end()
        return len(self.text)

    def _island(self, start: int) -> int:
        """Read the island at ``start``; returns where the text goes on."""
        text = self.text
        self._sql(start)
        line = self._line(start)
        mark = text[start + 1]
        pos = start + 2
        if text.startswith("-", pos):
            self._rstrip()
            pos += 1
        elif mark != "{" and text.startswith("+", pos):
            pos += 1
        self.lstrip = False
        if mark == "#":
            end = self._note(pos, line)
        elif mark == "{":
            end = self._code(Kind.EXPRESSION, pos, line)
        else:
            end = self._code(Kind.STATEMENT, pos, line)
        self.begin = end
        return end

    def _rstrip(self) -> None:
        while self.pieces and self.pieces[-1].kind is Kind.SQL:
            self.pieces[-1].text = self.pieces[-1].text.rstrip()
            if self.pieces[-1].text:
                return
            self.pieces.pop()

    def _note(self, pos: int, line: int) -> int:
        end = _NOTE_END.search(self.text, pos)
        if end is None:
            self.faults.append(Fault("{# is never closed", line, hint="close it with #}; " + LITERAL_BRACES))
            return len(self.text)
        self.lstrip = end[1] == "-"
        return end.end()

    def _code(self, kind: Kind, pos: int, line: int) -> int:
        start = pos
        text = self.text
        plain = _EXPRESSION if kind is Kind.EXPRESSION else _STATEMENT
        tokens: list[RawToken] = []
        brackets: list[str] = []
        at = line
        folded = False
        try:
            while True:
                found = (_BRACKETED if brackets else plain).match(text, pos)
                if found is None:
                    raise self._unreadable(kind, pos, line, at)
                name, chunk = found.lastgroup, found.group()
                if name == "close":
                    break
                if name == "operator":
                    if chunk in _PAIRS:
                        brackets.append(_PAIRS[chunk])
                    elif chunk in ")]}" and (not brackets or brackets.pop() != chunk):
                        raise Fault(f"'{chunk}' closes nothing", at, hint=self._hint(kind))
                if name != "space":
                    tokens.append((name or "", chunk, at))
                if "\n" in chunk:
                    folded = True
                    at += chunk.count("\n")
                pos = found.end()
        except Fault as fault:
            fault.structural = kind is Kind.STATEMENT
            self.faults.append(fault)
            closing = text.find("}}" if kind is Kind.EXPRESSION else "%}", start)
            return len(text) if closing < 0 else closing + 2
        self.pieces.append(Piece(kind, line, tokens=tokens))
        self.lstrip = chunk[0] == "-"
        if folded and kind is Kind.EXPRESSION:
            self.faults.append(Fault("a call must stand on one line", line, hint=CLOSE_ON_THE_LINE))
        return found.end()

    def _unreadable(self, kind: Kind, pos: int, line: int, at: int) -> Fault:
        text = self.text
        opening, closing = ("{{", "}}") if kind is Kind.EXPRESSION else ("{%", "%}")
        line_end = text.find("\n", pos)
        if kind is Kind.EXPRESSION and text.find(closing, pos, len(text) if line_end < 0 else line_end) < 0:
            return Fault("{{ is not closed on its line", line, hint=CLOSE_ON_THE_LINE)
        if pos >= len(text):
            return Fault(f"{opening} is never closed", line, hint=self._hint(kind))
        if text[pos] in "'\"":
            return Fault(f"a text in {opening} … {closing} is not closed", at, hint=self._hint(kind))
        return Fault(f"'{text[pos]}' has no meaning in {opening} … {closing}", at, hint=self._hint(kind))

    @staticmethod
    def _hint(kind: Kind) -> str:
        return CLOSE_ON_THE_LINE if kind is Kind.EXPRESSION else "close it with %}; " + LITERAL_BRACES

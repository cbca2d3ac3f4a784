"""Jinja's own expression parser, with the spellings that pz adds: ``name: value`` in calls, bare keys in mappings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token, TokenStream, operators
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pz_core.compile.faults import LITERAL_BRACES, Fault
from pz_core.compile.scanner import RawToken

_Made = TypeVar("_Made")

#: Longest spelling of a number; far beyond any that SQL has a type for.
_LONGEST_NUMBER = 400

#: Words that begin a statement, here or in another template language: they belong into ``{% … %}``.
_STATEMENT_WORDS = frozenset({"for", "if", "elif", "else", "end", "endif", "endfor", "set", "endset"})


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja's immutable sandbox with nothing in scope; the parser works under it."""
    made = ImmutableSandboxedEnvironment(optimized=False, cache_size=0)
    made.globals.clear()
    made.filters.clear()
    made.tests.clear()
    return made


_ENVIRONMENT = _environment()


def convert(raw: Sequence[RawToken], end: str, line: int) -> list[Token]:
    """Jinja's tokens for those of the scanner; ``end`` is the type of the token that closes the island.

    Raises:
        Fault: for a literal that has no value.
    """
    made: list[Token] = []
    last = line
    for kind, text, last in raw:
        if kind == "operator":
            made.append(Token(last, operators[text], text))
        elif kind == "name":
            made.append(Token(last, "name", text))
        elif kind == "string":
            made.append(Token(last, "string", _unescape(text[1:-1], last)))
        else:
            # Jinja's own lexer hands numbers on as numbers, whatever it declares.
            made.append(Token(last, kind, _number(kind, text, last)))  # type: ignore[arg-type]
    made.append(Token(last, end, ""))
    return made


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    try:
        made = text.encode("ascii", "backslashreplace").decode("unicode-escape")
        made.encode("utf-8")
    except (UnicodeError, ValueError):
        raise Fault("a text holds an escape that means no character", line, hint="write \\\\ for a backslash") from None
    return made


def _number(kind: str, text: str, line: int) -> int | float:
    try:
        if len(text) > _LONGEST_NUMBER:
            raise ValueError
        plain = text.replace("_", "")
        if kind == "float":
            return float(plain)
        return int(plain, 10 if plain.isdigit() else 0)
    except ValueError:
        raise Fault("a number cannot be read", line) from None


class ExpressionParser(Parser):
    """Parses one island."""

    def __init__(self, raw: Sequence[RawToken], end: str, line: int) -> None:
        self.environment = _ENVIRONMENT
        self.stream = TokenStream(convert(raw, end, line), None, None)
        self.name = None
        self.filename = None
        self.closed = False
        self.extensions = {}
        self._last_identifier = 0
        self._tag_stack = []
        self._end_token_stack = []

    def parse_call_args(self) -> tuple[list[nodes.Expr], list[nodes.Keyword], None, None]:
        """``(…)`` of a call: positional arguments, then ``name: value`` or ``name=value``, in any mix, repeats kept."""
        self.stream.expect("lparen")
        args: list[nodes.Expr] = []
        kwargs: list[nodes.Keyword] = []
        while self.stream.current.type != "rparen":
            if args or kwargs:
                self.stream.expect("comma")
                if self.stream.current.type == "rparen":
                    break
            token = self.stream.current
            if token.type in ("mul", "pow"):
                self.fail("arguments are written one by one, * and ** unpack nothing here", token.lineno)
            if token.type == "name" and self.stream.look().type in ("assign", "colon"):
                self.stream.skip(2)
                kwargs.append(nodes.Keyword(token.value, self.parse_expression(), lineno=token.lineno))
            elif kwargs:
                self.fail("an argument without a name stands after one with a name", token.lineno)
            else:
                args.append(self.parse_expression())
        self.stream.expect("rparen")
        return args, kwargs, None, None

    def parse_dict(self) -> nodes.Dict:
        """A mapping literal; a bare word before a colon is a key as it stands."""
        opening = self.stream.expect("lbrace")
        items: list[nodes.Pair] = []
        while self.stream.current.type != "rbrace":
            if items:
                self.stream.expect("comma")
                if self.stream.current.type == "rbrace":
                    break
            token = self.stream.current
            key: nodes.Expr
            if token.type == "name" and self.stream.look().type == "colon":
                next(self.stream)
                key = nodes.Const(token.value, lineno=token.lineno)
            else:
                key = self.parse_expression()
            self.stream.expect("colon")
            items.append(nodes.Pair(key, self.parse_expression(), lineno=token.lineno))
        self.stream.expect("rbrace")
        return nodes.Dict(items, lineno=opening.lineno)


def parse_output(raw: Sequence[RawToken], line: int) -> nodes.Expr:
    """The expression of ``{{ … }}``.

    Raises:
        Fault: if it does not parse.
    """

    def parse(parser: ExpressionParser) -> nodes.Expr:
        made = parser.parse_tuple(with_condexpr=True)
        parser.stream.expect("variable_end")
        return made

    hint = None
    if raw and raw[0][0] == "name" and raw[0][1] in _STATEMENT_WORDS:
        hint = "statements are written {% for … %} … {% endfor %}, {% if … %} … {% endif %}, {% set … %}"
    return guard(parse, ExpressionParser(raw, "variable_end", line), line, hint or LITERAL_BRACES)


def open_statement(raw: Sequence[RawToken], line: int) -> ExpressionParser:
    """A parser that stands behind the first word of ``{% … %}``.

    Raises:
        Fault: if a literal in it has no value.
    """
    parser = ExpressionParser(raw, "block_end", line)
    next(parser.stream)
    return parser


def guard(
    step: Callable[[ExpressionParser], _Made], parser: ExpressionParser, line: int, hint: str | None = None
) -> _Made:
    """Run a step of the parser.

    Raises:
        Fault: if it does not parse, in place of Jinja's own error.
    """
    try:
        return step(parser)
    except TemplateSyntaxError as error:
        raise Fault(f"the template does not parse: {error.message}", error.lineno or line, hint=hint) from None
    except RecursionError:
        raise Fault("the template is nested too deeply", line, hint="split the expression with {% set … %}") from None

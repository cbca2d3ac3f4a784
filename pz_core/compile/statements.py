"""The tree of a template: text, output, ``if``, ``for`` and ``set``. Nothing else is a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, Union

from jinja2 import nodes
from msgspec import Struct, field

from pz_core.compile.expressions import ExpressionParser, guard, open_statement, parse_output
from pz_core.compile.faults import LITERAL_BRACES, Fault
from pz_core.compile.scanner import Kind, Piece

_Made = TypeVar("_Made")

_ALLOWED = "the statements are if, elif, else, endif, for, endfor, set and endset; " + LITERAL_BRACES


class Text(Struct):
    """SQL and comments, as they stand."""

    text: str


class Output(Struct):
    """``{{ … }}``."""

    value: nodes.Expr
    line: int


class Set(Struct):
    """``{% set … = … %}``, or ``{% set … %} … {% endset %}`` with a body in place of a value."""

    target: nodes.Expr
    value: nodes.Expr | None
    line: int
    body: list[Step] = field(default_factory=list)


class If(Struct):
    """``{% if %}`` with its branches; a branch without a test is ``else``."""

    line: int
    branches: list[tuple[nodes.Expr | None, list[Step]]] = field(default_factory=list)


class For(Struct):
    """``{% for … in … if … %}``; ``otherwise`` runs where there was no turn."""

    target: nodes.Expr
    items: nodes.Expr
    test: nodes.Expr | None
    line: int
    body: list[Step] = field(default_factory=list)
    otherwise: list[Step] | None = None


Step = Union[Text, Output, Set, If, For]


class _Open(Struct):
    """A block that waits for its end, and the list that steps are added to meanwhile."""

    word: str
    block: Set | If | For | None
    steps: list[Step]
    line: int


def build(pieces: Sequence[Piece], faults: list[Fault]) -> list[Step]:
    """The tree of a scanned text. Faults of single islands are collected, and the rest is still built."""
    root = _Open("", None, [], 1)
    stack = [root]
    for piece in pieces:
        steps = stack[-1].steps
        if piece.kind in (Kind.SQL, Kind.COMMENT):
            steps.append(Text(piece.text))
            continue
        try:
            if piece.kind is Kind.EXPRESSION:
                steps.append(Output(parse_output(piece.tokens, piece.line), piece.line))
            else:
                _statement(piece, stack)
        except Fault as fault:
            fault.structural = piece.kind is Kind.STATEMENT
            faults.append(fault)
    for left in stack[1:]:
        faults.append(Fault(f"{{% {left.word} %}} has no {{% end{left.word} %}}", left.line))
    return root.steps


def _statement(piece: Piece, stack: list[_Open]) -> None:
    if not piece.tokens or piece.tokens[0][0] != "name":
        raise Fault("{% … %} holds no statement", piece.line, hint=_ALLOWED)
    word = piece.tokens[0][1]
    top = stack[-1]
    if word == "if":
        # A block is opened before its head is parsed, so that a broken head does not make its end a second fault.
        made = If(piece.line)
        branch: list[Step] = []
        made.branches.append((nodes.Const(False), branch))
        stack.append(_Open("if", made, branch, piece.line))
        made.branches[0] = (_tail(piece, _test), branch)
        top.steps.append(made)
    elif word == "for":
        loop = For(nodes.Name("_", "store"), nodes.List([]), None, piece.line)
        stack.append(_Open("for", loop, loop.body, piece.line))
        loop.target, loop.items, loop.test = _tail(piece, _loop_head)
        top.steps.append(loop)
    elif word == "set":
        _set(piece, stack)
    elif word in ("elif", "else"):
        _branch(piece, word, top)
    elif word in ("endif", "endfor", "endset"):
        if top.word != word[3:]:
            raise Fault(f"{{% {word} %}} ends nothing", piece.line)
        stack.pop()
        _tail(piece, _nothing)
    elif word == "raw":
        raise Fault("{% raw %} is not part of the template language", piece.line, hint=LITERAL_BRACES)
    else:
        raise Fault(f"{{% {word} %}} is not part of the template language", piece.line, hint=_ALLOWED)


def _branch(piece: Piece, word: str, top: _Open) -> None:
    if isinstance(top.block, If) and top.block.branches[-1][0] is not None:
        branch: list[Step] = []
        top.steps = branch
        top.block.branches.append((nodes.Const(False), branch) if word == "elif" else (None, branch))
        if word == "elif":
            top.block.branches[-1] = (_tail(piece, _test), branch)
            return
    elif word == "else" and isinstance(top.block, For) and top.block.otherwise is None:
        top.block.otherwise = top.steps = []
    else:
        raise Fault(f"{{% {word} %}} belongs to no open block", piece.line)
    _tail(piece, _nothing, "write {% elif … %} for a second test")


def _set(piece: Piece, stack: list[_Open]) -> None:
    def head(parser: ExpressionParser) -> tuple[nodes.Expr, nodes.Expr | None]:
        target = parser.parse_assign_target()
        value = parser.parse_tuple() if parser.stream.skip_if("assign") else None
        return target, value

    target, value = _tail(piece, head)
    made = Set(target, value, piece.line)
    stack[-1].steps.append(made)
    if value is None:
        stack.append(_Open("set", made, made.body, piece.line))


def _nothing(parser: ExpressionParser) -> None:
    """The statement is its first word alone."""


def _test(parser: ExpressionParser) -> nodes.Expr:
    return parser.parse_tuple(with_condexpr=False)


def _loop_head(parser: ExpressionParser) -> tuple[nodes.Expr, nodes.Expr, nodes.Expr | None]:
    target = parser.parse_assign_target(extra_end_rules=("name:in",))
    parser.stream.expect("name:in")
    items = parser.parse_tuple(with_condexpr=False)
    test = parser.parse_expression() if parser.stream.skip_if("name:if") else None
    return target, items, test


def _tail(piece: Piece, step: Callable[[ExpressionParser], _Made], hint: str | None = None) -> _Made:
    """Parse what follows the first word, to the end of the island."""

    def whole(parser: ExpressionParser) -> _Made:
        made = step(parser)
        parser.stream.expect("block_end")
        return made

    return guard(whole, open_statement(piece.tokens, piece.line), piece.line, hint or _ALLOWED)

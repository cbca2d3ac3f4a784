"""Expressions of a template over plain values: texts, numbers, booleans, lists and mappings, and nothing else.

Nothing of Python is reachable from here: no operation looks at an attribute or calls a method of a value by a name
that the template chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from jinja2 import nodes

from pz_core.compile.faults import Fault
from pz_core.compile.limits import Budget, LimitReached
from pz_core.compile.operations import arithmetic, is_list, is_number, kind_of, spell
from pz_core.values.config import is_unicode

FILTERS = ("join", "length", "lower", "upper")
TESTS = ("defined", "in", "none")
LOOP_FIELDS = ("index", "index0", "first", "last", "length")


class Scope(Protocol):
    """What a template can name: functions to call, constants to read."""

    functions: frozenset[str]
    constants: frozenset[str]

    def call(self, name: str, args: list[Any], kwargs: list[tuple[str, Any]], broken: bool, line: int) -> Any:
        """Call a function; ``broken`` says that an argument had a fault and is left out."""
        ...

    def constant(self, name: str) -> str:
        """Read a constant."""
        ...


class Poison:
    """The value of what had a fault: using it is no second fault."""


class Loop:
    """``loop`` in a ``for``: a mapping of its own, so that it cannot be printed or passed on."""

    __slots__ = ("index0", "length")

    def __init__(self, index0: int, length: int) -> None:
        self.index0 = index0
        self.length = length

    def field(self, name: str, line: int) -> int | bool:
        """What a template reads as ``loop.<name>``."""
        if name == "index":
            return self.index0 + 1
        if name == "index0":
            return self.index0
        if name == "first":
            return self.index0 == 0
        if name == "last":
            return self.index0 == self.length - 1
        if name == "length":
            return self.length
        raise Fault(f"loop has no '{name}'", line, hint="loop has " + ", ".join(LOOP_FIELDS))


POISON = Poison()


def truth(value: Any) -> bool:
    """Whether a value counts as true: zero, ``none`` and what is empty do not."""
    return bool(value)


class Evaluator:
    """Works out expressions.

    Args:
        scope: functions and constants.
        faults: gets the faults of arguments, so that one call reports all of its own.
    """

    def __init__(self, scope: Scope, faults: list[Fault]) -> None:
        self.scope = scope
        self.budget = Budget()
        self.frames: list[dict[str, Any]] = [{}]
        self._faults = faults
        self._seen: set[tuple[str, str, int]] = set()

    def report(self, fault: Fault) -> None:
        """Add a fault, once however many turns of a loop meet it."""
        key = (fault.code, fault.message, fault.line)
        if not fault.known and key not in self._seen:
            self._seen.add(key)
            self._faults.append(fault)

    def value(self, node: nodes.Expr) -> Any:
        """The value of an expression.

        Raises:
            Fault: if it has none.
        """
        rule = _RULES.get(type(node))
        if rule is None:
            raise Fault("an expression uses what the template language does not have", node.lineno)
        return rule(self, node)

    def _const(self, node: nodes.Const) -> Any:
        if isinstance(node.value, str) and ("\0" in node.value or not is_unicode(node.value)):
            what = "a text has an escape for a NUL character or for half of a character"
            raise Fault(what, node.lineno, hint="write the text without it")
        return node.value

    def _name(self, node: nodes.Name) -> Any:
        name = node.name
        for frame in reversed(self.frames):
            if name in frame:
                value = frame[name]
                if value is POISON:
                    raise Fault("", node.lineno, known=True)
                if isinstance(value, Loop):
                    raise Fault("'loop' is read by its fields", node.lineno, hint="loop." + ", loop.".join(LOOP_FIELDS))
                return value
        if name in self.scope.constants:
            return self.scope.constant(name)
        if name in self.scope.functions:
            raise Fault(f"'{name}' is a function and must be called", node.lineno, hint=f"write {name}('…')")
        raise Fault(f"'{name}' is not known here", node.lineno, hint=self._known(), undefined=True)

    def _known(self) -> str:
        functions = ", ".join(f"{f}()" for f in sorted(self.scope.functions))
        return (
            f"a template knows {functions}, {', '.join(sorted(self.scope.constants))} and what {{% set %}} names; "
            "a variable of project.yml is read by var('name')"
        )

    def _call(self, node: nodes.Call) -> Any:
        called = node.node
        if not isinstance(called, nodes.Name):
            raise Fault("values have no methods to call", node.lineno, hint="the filters are " + ", ".join(FILTERS))
        name = called.name
        if name not in self.scope.functions:
            if any(name in frame for frame in self.frames) or name in self.scope.constants:
                raise Fault(f"'{name}' is no function", node.lineno)
            raise Fault(f"there is no function '{name}'", node.lineno, hint=self._known())
        broken = False
        args: list[Any] = []
        kwargs: list[tuple[str, Any]] = []
        for arg in node.args:
            try:
                args.append(self.value(arg))
            except LimitReached:
                raise
            except Fault as fault:
                self.report(fault)
                broken = True
        for keyword in node.kwargs:
            try:
                kwargs.append((keyword.key, self.value(keyword.value)))
            except LimitReached:
                raise
            except Fault as fault:
                self.report(fault)
                broken = True
        return self.scope.call(name, args, kwargs, broken, node.lineno)

    def _list(self, node: nodes.List | nodes.Tuple) -> list[Any]:
        made = [self.value(item) for item in node.items]
        self.budget.weigh(made)
        return made

    def _dict(self, node: nodes.Dict) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for pair in node.items:
            key = self.value(pair.key)
            if not isinstance(key, str):
                raise Fault("a key of a mapping is text", pair.lineno, hint="put it in quotes")
            if key in made:
                raise Fault(f"the key '{key}' stands twice in one mapping", pair.lineno)
            made[key] = self.value(pair.value)
        self.budget.weigh(made)
        return made

    def _getattr(self, node: nodes.Getattr) -> Any:
        if isinstance(node.node, nodes.Name) and node.node.name == "loop":
            for frame in reversed(self.frames):
                loop = frame.get("loop")
                if isinstance(loop, Loop):
                    return loop.field(node.attr, node.lineno)
        return self._entry(self.value(node.node), node.attr, node.lineno)

    def _entry(self, value: Any, key: Any, line: int) -> Any:
        if isinstance(value, Mapping) and isinstance(key, str):
            if key in value:
                return value[key]
            raise Fault(f"the mapping has no entry '{key}'", line, undefined=True)
        if (is_list(value) or isinstance(value, str)) and isinstance(key, int) and not isinstance(key, bool):
            if -len(value) <= key < len(value):
                return value[key]
            raise Fault(f"there is no entry {key} in {kind_of(value)} of {len(value)}", line, undefined=True)
        if isinstance(key, str):
            raise Fault(
                f"{kind_of(value)} has no '{key}'",
                line,
                hint="only a mapping's entries are read by .key or ['key']; there are no attributes and no methods",
            )
        raise Fault(f"{kind_of(value)} has no entry of that kind", line)

    def _getitem(self, node: nodes.Getitem) -> Any:
        value = self.value(node.node)
        if not isinstance(node.arg, nodes.Slice):
            return self._entry(value, self.value(node.arg), node.lineno)
        bounds: list[int | None] = []
        for part in (node.arg.start, node.arg.stop, node.arg.step):
            bound = None if part is None else self.value(part)
            if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
                raise Fault("the bounds of a slice are whole numbers", node.lineno)
            bounds.append(bound)
        if bounds[2] == 0:
            raise Fault("the step of a slice cannot be zero", node.lineno)
        if isinstance(value, str):
            self.budget.text(len(value))
        elif is_list(value):
            self.budget.weigh(value)
        else:
            raise Fault(f"{kind_of(value)} cannot be sliced", node.lineno)
        return value[slice(*bounds)]

    def _concat(self, node: nodes.Concat) -> str:
        parts = [spell(self.value(part), node.lineno) for part in node.nodes]
        self.budget.text(sum(map(len, parts)))
        return "".join(parts)

    def _condexpr(self, node: nodes.CondExpr) -> Any:
        if truth(self.value(node.test)):
            return self.value(node.expr1)
        if node.expr2 is None:
            raise Fault("'… if …' needs an else", node.lineno, hint="write … if … else ''")
        return self.value(node.expr2)

    def _and(self, node: nodes.And) -> Any:
        left = self.value(node.left)
        return self.value(node.right) if truth(left) else left

    def _or(self, node: nodes.Or) -> Any:
        left = self.value(node.left)
        return left if truth(left) else self.value(node.right)

    def _not(self, node: nodes.Not) -> bool:
        return not truth(self.value(node.node))

    def _sign(self, node: nodes.Neg | nodes.Pos) -> Any:
        value = self.value(node.node)
        if not is_number(value):
            raise Fault(f"{kind_of(value)} has no sign", node.lineno)
        return -value if isinstance(node, nodes.Neg) else value

    def _binary(self, node: nodes.BinExpr) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        mark, line = node.operator, node.lineno
        if is_number(left) and is_number(right):
            return arithmetic(mark, left, right, line)
        if mark == "+" and isinstance(left, str) and isinstance(right, str):
            self.budget.text(len(left) + len(right))
            return left + right
        if mark == "+" and is_list(left) and is_list(right):
            joined = [*left, *right]
            self.budget.weigh(joined)
            return joined
        if mark == "*" and isinstance(left, str) and isinstance(right, int) and not isinstance(right, bool):
            self.budget.text(len(left) * max(0, right))
            return left * right
        hint = "~ joins texts" if isinstance(left, str) or isinstance(right, str) else None
        raise Fault(f"'{mark}' does not work between {kind_of(left)} and {kind_of(right)}", line, hint=hint)

    def _compare(self, node: nodes.Compare) -> bool:
        left = self.value(node.expr)
        for operand in node.ops:
            right = self.value(operand.expr)
            if not self._holds(operand.op, left, right, node.lineno):
                return False
            left = right
        return True

    def _holds(self, mark: str, left: Any, right: Any, line: int) -> bool:
        if mark in ("eq", "ne"):
            self.budget.weigh(left)
            return bool(left == right) is (mark == "eq")
        if mark in ("in", "notin"):
            return self._contains(left, right, line) is (mark == "in")
        if not ((is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))):
            raise Fault(f"{kind_of(left)} and {kind_of(right)} have no order", line)
        return bool({"lt": left < right, "lteq": left <= right, "gt": left > right, "gteq": left >= right}[mark])

    def _contains(self, item: Any, container: Any, line: int) -> bool:
        if isinstance(container, str):
            if not isinstance(item, str):
                raise Fault(f"{kind_of(item)} cannot be in a text", line)
            self.budget.items(1 + len(container) // 64)
            return item in container
        if isinstance(container, Mapping):
            return isinstance(item, str) and item in container
        if is_list(container):
            self.budget.weigh(container)
            return item in container
        raise Fault(f"nothing can be in {kind_of(container)}", line)

    def _test(self, node: nodes.Test) -> bool:
        if node.name not in TESTS or node.kwargs:
            raise Fault(f"there is no test '{node.name}'", node.lineno, hint="the tests are " + ", ".join(TESTS))
        if len(node.args) != (1 if node.name == "in" else 0):
            raise Fault(f"the test '{node.name}' has the wrong number of arguments", node.lineno)
        if node.name == "defined":
            # A name or a project variable that does not exist is what this test is for.
            kept, self._faults = self._faults, []
            seen, self._seen = self._seen, set()
            try:
                self.value(node.node)
            except LimitReached:
                raise
            except Fault as fault:
                if not fault.undefined and not fault.known:
                    raise
                return False
            finally:
                self._faults = kept
                self._seen = seen
            return True
        value = self.value(node.node)
        if node.name == "none":
            return value is None
        return self._contains(value, self.value(node.args[0]), node.lineno)

    def _filter(self, node: nodes.Filter) -> Any:
        name, line = node.name, node.lineno
        if name not in FILTERS or node.node is None:
            raise Fault(f"there is no filter '{name}'", line, hint="the filters are " + ", ".join(FILTERS))
        if node.kwargs or len(node.args) > (1 if name == "join" else 0):
            raise Fault(f"the filter '{name}' does not take these arguments", line)
        value = self.value(node.node)
        if name == "length":
            if isinstance(value, (str, Mapping)) or is_list(value):
                return len(value)
            raise Fault(f"{kind_of(value)} has no length", line)
        if name == "join":
            separator = spell(self.value(node.args[0]), line) if node.args else ""
            if isinstance(value, Mapping):
                value = list(value)
            if not is_list(value):
                raise Fault(f"{kind_of(value)} cannot be joined", line, hint="join takes a list")
            parts = [spell(item, line) for item in value]
            self.budget.items(len(parts))
            self.budget.text(sum(map(len, parts)) + len(separator) * len(parts))
            return separator.join(parts)
        text = spell(value, line)
        self.budget.text(len(text))
        return text.upper() if name == "upper" else text.lower()


_RULES: dict[type, Callable[[Evaluator, Any], Any]] = {
    nodes.Const: Evaluator._const,
    nodes.Name: Evaluator._name,
    nodes.Call: Evaluator._call,
    nodes.List: Evaluator._list,
    nodes.Tuple: Evaluator._list,
    nodes.Dict: Evaluator._dict,
    nodes.Getattr: Evaluator._getattr,
    nodes.Getitem: Evaluator._getitem,
    nodes.Concat: Evaluator._concat,
    nodes.CondExpr: Evaluator._condexpr,
    nodes.And: Evaluator._and,
    nodes.Or: Evaluator._or,
    nodes.Not: Evaluator._not,
    nodes.Neg: Evaluator._sign,
    nodes.Pos: Evaluator._sign,
    nodes.Compare: Evaluator._compare,
    nodes.Test: Evaluator._test,
    nodes.Filter: Evaluator._filter,
    nodes.Add: Evaluator._binary,
    nodes.Sub: Evaluator._binary,
    nodes.Mul: Evaluator._binary,
    nodes.Div: Evaluator._binary,
    nodes.FloorDiv: Evaluator._binary,
    nodes.Mod: Evaluator._binary,
    nodes.Pow: Evaluator._binary,
}

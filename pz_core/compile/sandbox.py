"""Runs a template's tree. Jinja parses; what runs is this and :mod:`pz_core.compile.evaluator`, over plain values only.

A template therefore cannot reach a Python object, and one that would run for ever or eat memory is refused by the
limits of :mod:`pz_core.compile.limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import nodes

from pz_core.compile.evaluator import POISON, Evaluator, Loop, Scope, truth
from pz_core.compile.faults import Fault
from pz_core.compile.limits import LimitReached
from pz_core.compile.operations import is_list, kind_of, spell
from pz_core.compile.statements import For, If, Output, Set, Step, Text


class Renderer:
    """One render.

    Args:
        scope: functions and constants.
        faults: gets all faults; a faulty output is left empty and the render goes on.
    """

    def __init__(self, scope: Scope, faults: list[Fault]) -> None:
        self._at = Evaluator(scope, faults)
        self._out: list[str] = []

    def render(self, steps: Sequence[Step]) -> str:
        """The text of a tree."""
        try:
            self._run(steps)
        except LimitReached as fault:
            self._at.report(fault)
        except RecursionError:
            line = self._at.budget.line
            self._at.report(Fault("the template is nested too deeply", line, hint="split it with {% set … %}"))
        return "".join(self._out)

    def _run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Text):
                self._emit(step.text)
                continue
            self._at.budget.line = step.line
            try:
                if isinstance(step, Output):
                    self._emit(spell(self._at.value(step.value), step.line))
                elif isinstance(step, Set):
                    self._set(step)
                elif isinstance(step, If):
                    self._if(step)
                else:
                    self._for(step)
            except LimitReached:
                raise
            except Fault as fault:
                self._at.report(fault)

    def _emit(self, text: str) -> None:
        self._at.budget.text(len(text))
        self._out.append(text)

    def _set(self, step: Set) -> None:
        value: Any
        if step.value is None:
            kept, self._out = self._out, []
            self._at.frames.append({})
            try:
                self._run(step.body)
                value = "".join(self._out)
            finally:
                self._at.frames.pop()
                self._out = kept
        else:
            try:
                value = self._at.value(step.value)
            except LimitReached:
                raise
            except Fault as fault:
                self._at.report(fault)
                value = POISON
        self._assign(step.target, value)

    def _assign(self, target: nodes.Expr, value: Any) -> None:
        if isinstance(target, nodes.Name):
            if (
                target.name in self._at.scope.functions
                or target.name in self._at.scope.constants
                or target.name == "loop"
            ):
                raise Fault(f"'{target.name}' belongs to pz and cannot be set", target.lineno, hint="use another name")
            self._at.frames[-1][target.name] = value
            return
        assert isinstance(target, nodes.Tuple)
        if value is POISON:
            parts: Sequence[Any] = [POISON] * len(target.items)
        elif is_list(value) and len(value) == len(target.items):
            parts = value
        else:
            raise Fault(f"{len(target.items)} names need a list of {len(target.items)} values", target.lineno)
        for name, part in zip(target.items, parts, strict=True):
            self._assign(name, part)

    def _if(self, step: If) -> None:
        for test, body in step.branches:
            if test is None or truth(self._at.value(test)):
                self._run(body)
                return

    def _for(self, step: For) -> None:
        items = self._at.value(step.items)
        if isinstance(items, Mapping):
            items = list(items)
        if not is_list(items):
            raise Fault(f"a loop goes over a list or a mapping, not over {kind_of(items)}", step.line)
        if step.test is not None:
            kept = []
            for item in items:
                with_item: dict[str, Any] = {}
                self._at.budget.turn()
                self._at.frames.append(with_item)
                try:
                    self._assign(step.target, item)
                    if truth(self._at.value(step.test)):
                        kept.append(item)
                finally:
                    self._at.frames.pop()
            items = kept
        for index, item in enumerate(items):
            self._at.budget.turn()
            self._at.frames.append({"loop": Loop(index, len(items))})
            try:
                self._assign(step.target, item)
                self._run(step.body)
            finally:
                self._at.frames.pop()
        if not items and step.otherwise is not None:
            self._run(step.otherwise)

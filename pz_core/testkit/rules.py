"""What a suite is made of: rules, marks for what is not kept yet, and how pytest finds both.

A suite is a class with rules. An author subclasses it in a test file; each rule is then a test of that class for
pytest, and :func:`~pz_core.testkit.report.run_suite` runs the same rules without pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from pz_core.errors import PzError, PzErrors

_MARK = "__pz_rule__"
_MADE = "__pz_made__"
_F = TypeVar("_F", bound=Callable[..., None])


class Broken(AssertionError):
    """A rule is broken; the text says how, for the author of the plugin."""


class NotApplicable(Exception):
    """A rule does not concern this plugin; the text says why."""


def require(holds: object, message: str) -> None:
    """Raise :class:`Broken` with a message unless something holds."""
    if not holds:
        raise Broken(message)


class NotYet(Struct, frozen=True):
    """A rule that a plugin is known to break, and the error with which it breaks it today.

    Args:
        reason: why, for whoever reads the report.
        raises: a code such as ``PZ0812``, or the class of the exception (:class:`Broken` for a wrong result).
    """

    reason: str
    raises: str | type[BaseException]

    def expects(self, error: BaseException) -> bool:
        """Whether an error is the expected one."""
        if isinstance(self.raises, str):
            return self.raises in codes_of(error)
        return isinstance(error, self.raises)


def notyet(reason: str, *, raises: str | type[BaseException]) -> NotYet:
    """Mark a rule that is not kept yet. It must go on failing with that error: when it no longer does, the mark goes.

    Args:
        reason: why.
        raises: a code such as ``PZ0812``, or the class of the exception.
    """
    return NotYet(reason, raises)


def codes_of(error: BaseException) -> tuple[str, ...]:
    """The codes of an error; none for a foreign one."""
    if isinstance(error, PzErrors):
        return tuple(e.code for e in error)
    return (error.code,) if isinstance(error, PzError) else ()


class Rule(Struct, frozen=True):
    """A rule of a suite.

    Args:
        name: of the method, which is the rule's name in reports.
        title: what must hold, in one line.
        area: ``options``, ``read``, ``write``, …
        needs: what the plugin must have declared for the rule to concern it.
        cases: names of the variants that the rule is checked in, or how to get them from the suite.
    """

    name: str
    title: str
    area: str
    needs: tuple[str, ...]
    cases: Callable[[Any], Iterable[str]] | None


def rule(
    area: str, *, needs: Sequence[str] = (), cases: Callable[[Any], Iterable[str]] | Sequence[str] | None = None
) -> Callable[[_F], _F]:
    """Make a rule of a method; the first line of its docstring is the rule's title.

    Args:
        area: part of the contract that it belongs to.
        needs: what must be declared, else the rule does not apply.
        cases: variants, or a function of the suite's class that names them; the method then takes one.
    """

    def mark(function: _F) -> _F:
        title = (function.__doc__ or function.__name__).strip().splitlines()[0].rstrip(".")
        names = cases if cases is None or callable(cases) else (lambda _, fixed=tuple(cases): fixed)
        setattr(function, _MARK, Rule(function.__name__, title, area, tuple(needs), names))
        return function

    return mark


class RuleCase(Struct, frozen=True):
    """A rule in one of its variants."""

    rule: Rule
    case: str | None = None

    @property
    def id(self) -> str:
        """``name`` or ``name[case]``."""
        return self.rule.name if self.case is None else f"{self.rule.name}[{self.case}]"


class Suite:
    """The rules of one plugin kind. Subclasses in a test file say what is tested.

    Every rule gets an instance, and a folder of its own in :attr:`folder`.
    """

    not_yet: ClassVar[Mapping[str, NotYet]] = {}
    """Rule (``name`` or ``name[case]``) -> :func:`notyet`."""

    limit_s: ClassVar[float] = 60.0
    """Seconds that a rule may take in :func:`~pz_core.testkit.report.run_suite`."""

    folder: Path
    """An empty folder that belongs to this rule alone."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give pytest a test for every rule, once the class says what is tested."""
        super().__init_subclass__(**kwargs)
        if cls.subject() is None:
            return
        for name in [n for n in dir(cls) if hasattr(getattr(cls, n), _MADE)]:
            setattr(cls, name, None)  # a base's, whose variants may be others than this class's
        for case in cls.rule_cases():
            setattr(cls, f"test_{case.id}", _as_test(case))

    @classmethod
    def subject(cls) -> str | None:
        """Name of what is tested; ``None`` for a class that leaves that to its subclasses."""
        return None

    @classmethod
    def rules(cls) -> tuple[Rule, ...]:
        """All rules, in the order of the contract."""
        found: dict[str, Rule] = {}
        for base in reversed(cls.__mro__):
            for name, member in vars(base).items():
                made = getattr(member, _MARK, None)
                if made is not None:
                    found[name] = made
        return tuple(found.values())

    @classmethod
    def rule_cases(cls) -> tuple[RuleCase, ...]:
        """All rules in all their variants.

        Raises:
            TypeError: if :attr:`not_yet` names a rule that is not there.
        """
        made: list[RuleCase] = []
        for each in cls.rules():
            names = list(each.cases(cls)) if each.cases is not None else [None]
            # A rule whose variants follow from abilities that are not declared still stands in the report.
            made += [RuleCase(each, name) for name in names or [None]]
        known = {c.id for c in made} | {c.rule.name for c in made}
        unknown = sorted(set(cls.not_yet) - known)
        if unknown:
            raise TypeError(f"{cls.__name__}.not_yet names no rule: {', '.join(unknown)}")
        return tuple(made)

    @classmethod
    def mark_of(cls, case: RuleCase) -> NotYet | None:
        """The mark of a rule that is not kept yet."""
        return cls.not_yet.get(case.id) or cls.not_yet.get(case.rule.name)

    def not_applicable(self, each: Rule) -> str | None:
        """Why a rule does not concern this plugin; ``None`` if it does."""
        return None

    def begin(self) -> None:
        """Hook: called before each rule, when :attr:`folder` is there."""

    def finish(self) -> None:
        """Hook: called after each rule, whatever came of it."""

    def check_rule(self, case: RuleCase, folder: Path) -> None:
        """Check one rule.

        Raises:
            NotApplicable: if it does not concern this plugin.
            Exception: whatever breaks it.
        """
        self.folder = folder
        reason = self.not_applicable(case.rule)
        if reason is not None:
            raise NotApplicable(reason)
        if case.rule.cases is not None and case.case is None:
            raise NotApplicable("nothing that was declared falls under it")
        self.begin()
        try:
            method = getattr(self, case.rule.name)
            if case.case is None:
                method()
            else:
                method(case.case)
        finally:
            self.finish()


def _as_test(case: RuleCase) -> Callable[[Any, Path], None]:
    def test(self: Suite, tmp_path: Path) -> None:
        import pytest

        mark = self.mark_of(case)
        try:
            self.check_rule(case, tmp_path)
        except NotApplicable as reason:
            pytest.skip(str(reason))
        except Exception as error:
            if mark is None or not mark.expects(error):
                raise
            pytest.xfail(mark.reason)
        if mark is not None:
            raise Broken(f"{case.id} is kept now: take its notyet() away ({mark.reason})")

    setattr(test, _MADE, True)
    test.__name__ = f"test_{case.id}"
    test.__doc__ = case.rule.title
    return test

"""Run a suite without pytest, and what comes of it."""

from __future__ import annotations

import tempfile
import threading
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from pz_core.errors import PzError, PzErrors, one_line
from pz_core.testkit.rules import NotApplicable, RuleCase, Suite

Outcome = Literal["passed", "failed", "skipped", "notyet"]


class RuleResult(Struct, frozen=True):
    """What came of one rule.

    Args:
        rule: its name, with the variant in brackets where it has one.
        title: what must hold.
        area: part of the contract that it belongs to.
        outcome: ``passed``, ``failed``, ``skipped`` (does not apply) or ``notyet`` (fails as the mark says).
        reason: why it was skipped or marked, or how it was broken.
        detail: the stack trace of a failure.
        duration_s: seconds that it took.
    """

    rule: str
    title: str
    area: str
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    duration_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data, without the stack trace."""
        return {
            "rule": self.rule,
            "title": self.title,
            "area": self.area,
            "outcome": self.outcome,
            "reason": self.reason,
            "durationMs": round(self.duration_s * 1000),
        }


class Report(Struct, frozen=True):
    """The results of a suite on one plugin.

    Args:
        suite: name of the suite's class.
        subject: what was tested.
        results: one a rule and variant, in the suite's order.
    """

    suite: str
    subject: str
    results: tuple[RuleResult, ...]

    @property
    def failures(self) -> tuple[RuleResult, ...]:
        """Rules that are broken."""
        return self.of("failed")

    @property
    def ok(self) -> bool:
        """Whether no rule is broken."""
        return not self.failures

    def of(self, outcome: Outcome) -> tuple[RuleResult, ...]:
        """Results with one outcome."""
        return tuple(r for r in self.results if r.outcome == outcome)

    def counts(self) -> dict[str, int]:
        """How many rules ended how."""
        return {name: len(self.of(name)) for name in ("passed", "failed", "skipped", "notyet")}

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "suite": self.suite,
            "subject": self.subject,
            "ok": self.ok,
            "counts": self.counts(),
            "results": [r.as_dict() for r in self.results],
        }


def run_suite(
    suite: type[Suite],
    *,
    only: Collection[str] | None = None,
    limit_s: float | None = None,
    on_result: Callable[[RuleResult], None] | None = None,
) -> Report:
    """Check every rule of a suite.

    Args:
        suite: a subclass that says what is tested.
        only: names of rules (with or without a variant) to check; ``None`` for all.
        limit_s: seconds that a rule may take before it counts as broken; ``None`` for the suite's own limit. The rule's
            thread cannot be stopped, so a caller that must end should run a suite in a process of its own.
        on_result: called with each result as it comes.

    Raises:
        TypeError: if the class does not say what is tested.
    """
    import time

    subject = suite.subject()
    if subject is None:
        raise TypeError(f"{suite.__name__} does not say what it tests")
    results: list[RuleResult] = []
    with tempfile.TemporaryDirectory(prefix="pz-kit-", ignore_cleanup_errors=True) as root:
        for number, case in enumerate(suite.rule_cases()):
            if only is not None and case.id not in only and case.rule.name not in only:
                continue
            folder = Path(root).resolve() / f"rule{number}"
            folder.mkdir()
            began = time.monotonic()
            error = _checked(suite, case, folder, suite.limit_s if limit_s is None else limit_s)
            results.append(_judged(suite, case, error, time.monotonic() - began))
            if on_result is not None:
                on_result(results[-1])
    return Report(suite.__name__, subject, tuple(results))


class _TookTooLong(Exception):
    """A rule did not end in time."""


def _checked(suite: type[Suite], case: RuleCase, folder: Path, limit_s: float) -> BaseException | None:
    ended: list[BaseException | None] = []

    def check() -> None:
        try:
            suite().check_rule(case, folder)
            ended.append(None)
        except BaseException as error:  # noqa: BLE001 - a plugin can raise anything; the report tells it
            ended.append(error)

    # A daemon, so that a plugin that never answers holds neither the report nor the process.
    thread = threading.Thread(target=check, name=f"rule-{case.id}", daemon=True)
    thread.start()
    thread.join(limit_s)
    return ended[0] if ended else _TookTooLong(f"did not end within {limit_s:g} seconds")


def _judged(suite: type[Suite], case: RuleCase, error: BaseException | None, took: float) -> RuleResult:
    def made(outcome: Outcome, reason: str = "", detail: str = "") -> RuleResult:
        return RuleResult(case.id, case.rule.title, case.rule.area, outcome, reason, detail, took)

    mark = suite.mark_of(case)
    if isinstance(error, NotApplicable):
        return made("skipped", str(error))
    if error is None:
        if mark is not None:
            return made("failed", f"is kept now: take its notyet() away ({mark.reason})")
        return made("passed")
    if mark is not None and mark.expects(error):
        return made("notyet", mark.reason)
    detail = "".join(traceback.format_exception(error))
    return made("failed", told(error), detail)


def told(error: BaseException) -> str:
    """An error in one line: a coded one as users see it, another with its type."""
    if isinstance(error, (PzError, PzErrors)):
        return one_line(str(error))
    if isinstance(error, (AssertionError, _TookTooLong)):
        return one_line(str(error)) or type(error).__name__
    return one_line(f"{type(error).__name__}: {error}")

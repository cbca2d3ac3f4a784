"""What authors of plugins test with: suites, hostile data, a project tester, a clock, a proxy that drops connections.

Subclass a suite in a test file of about ten lines, and pytest finds a test for every rule that the plugin owes. Without
pytest, :func:`run_suite` runs the same rules and gives a :class:`Report`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pz_core.testkit import corpus
    from pz_core.testkit.check import CheckSuite
    from pz_core.testkit.clock import FakeClock
    from pz_core.testkit.connector import ConnectorSuite
    from pz_core.testkit.project import ProjectTester, Said
    from pz_core.testkit.proxy import DroppingProxy
    from pz_core.testkit.report import Report, RuleResult, run_suite
    from pz_core.testkit.rules import Broken, NotApplicable, NotYet, Suite, notyet, require, rule
    from pz_core.testkit.state import StateBackendSuite
    from pz_core.testkit.strategy import StrategySuite

__all__ = [
    "Broken",
    "CheckSuite",
    "ConnectorSuite",
    "DroppingProxy",
    "FakeClock",
    "NotApplicable",
    "NotYet",
    "ProjectTester",
    "Report",
    "RuleResult",
    "Said",
    "StateBackendSuite",
    "StrategySuite",
    "Suite",
    "corpus",
    "notyet",
    "require",
    "rule",
    "run_suite",
]

#: Where each name stands; imported when it is first asked for, since most need DuckDB and Arrow.
_PLACES = {
    "CheckSuite": "check",
    "FakeClock": "clock",
    "ConnectorSuite": "connector",
    "ProjectTester": "project",
    "Said": "project",
    "DroppingProxy": "proxy",
    "Report": "report",
    "RuleResult": "report",
    "run_suite": "report",
    "Broken": "rules",
    "NotApplicable": "rules",
    "NotYet": "rules",
    "Suite": "rules",
    "notyet": "rules",
    "require": "rules",
    "rule": "rules",
    "StateBackendSuite": "state",
    "StrategySuite": "strategy",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        if name == "corpus":
            return import_module("pz_core.testkit.corpus")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"pz_core.testkit.{place}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The suites for strategies, checks and state backends find what is broken in one of each."""

from __future__ import annotations

from typing import Any

import msgspec.structs
import pytest

from pz_core.checks.not_null import NotNull
from pz_core.contract import CheckQuery
from pz_core.errors import PzError
from pz_core.state.local import LocalState
from pz_core.strategies.append import Append
from pz_core.strategies.merge import Merge
from pz_core.testkit import CheckSuite, StateBackendSuite, StrategySuite, run_suite
from pz_core.testkit.check import CheckCase


def strategy(base: type[Any], **members: Any) -> type[Any]:
    return type("Kit", (StrategySuite,), {"strategy": type("Broken", (base,), members)})


def unquoted(self: Any, request: Any) -> tuple[str, ...]:
    names = ", ".join(c.name for c in request.columns)
    return (f"INSERT INTO {request.target} ({names}) SELECT {names} FROM {request.staged}",)


class Check(CheckSuite):
    cases = [CheckCase(["a"], "SELECT 1 AS a", 0), CheckCase(["a"], "SELECT NULL::INT AS a", 1)]

    def body_for(self, column: str) -> Any:
        return [column]


def check(**members: Any) -> type[Any]:
    return type("Kit", (Check,), {"check": type("Broken", (NotNull,), members)})


def counting(sql: str) -> Any:
    return lambda self, definition, relation, now: CheckQuery(
        sql.format(relation=relation, column=definition.columns[0])
    )


class Forgetful(LocalState):
    """Sets without comparing."""

    def write(self, scope: str, key: str, payload: Any, expected: str | None) -> Any:
        now = self.read(scope, key)
        return super().write(scope, key, payload, None if now is None else now.version)


class Trusting(LocalState):
    """Sorts nothing, closes loudly, and lets anything be a scope."""

    def entries(self, scope: str) -> Any:
        return dict(reversed(super().entries(scope).items()))

    def describe(self) -> str:
        return "local files, reached with hunter2hunter2"


class Lossy(LocalState):
    """Takes whole numbers for doubles."""

    def write(self, scope: str, key: str, payload: Any, expected: str | None) -> Any:
        rounded = {k: float(v) if isinstance(v, int) and not isinstance(v, bool) else v for k, v in payload.items()}
        return super().write(scope, key, rounded, expected)


class Late(LocalState):
    """Compares, waits, and sets."""

    def write(self, scope: str, key: str, payload: Any, expected: str | None) -> Any:
        import time

        now = self.read(scope, key)
        if (None if now is None else now.version) != expected:
            raise PzError("PZ0520", "changed", hint="again")
        time.sleep(0.01)
        again = self.read(scope, key)
        return super().write(scope, key, payload, None if again is None else again.version)


def state(backend: type[Any], **members: Any) -> type[Any]:
    def files(self: Any) -> Any:
        return self.project.glob(".pz/state/*.json")

    return type("Kit", (StateBackendSuite,), {"backend": backend, "files": files, **members})


BROKEN: dict[str, tuple[type[Any], str]] = {
    "a strategy that claims to be idempotent": (
        strategy(Append, traits=msgspec.structs.replace(Append.traits, idempotent=True)),
        "the_traits_say_what_happens_twice",
    ),
    "a strategy that could claim to be": (
        strategy(Merge, traits=msgspec.structs.replace(Merge.traits, idempotent=False)),
        "the_traits_say_what_happens_twice",
    ),
    "a strategy that quotes no name": (strategy(Append, program=unquoted), "columns_may_have_any_name[order]"),
    "a strategy that asks nothing of its keys": (
        strategy(Merge, probes=lambda self, request: ()),
        "keys_that_are_null_are_refused",
    ),
    "a strategy that keeps the first": (
        strategy(Merge, program=lambda self, r: Merge.program(self, msgspec.structs.replace(r, order="-(rowid)"))),
        "the_last_of_a_key_is_kept",
    ),
    "a strategy that empties the target": (
        strategy(Append, program=lambda self, r: (f"DELETE FROM {r.target}", *Append.program(self, r))),
        "rows_that_the_batch_lacks_stay",
    ),
    "a check that counts wrong": (check(query=counting("SELECT count(*) FROM {relation}")), "violations_are_counted"),
    "a check that quotes no name": (
        check(query=counting("SELECT count(*) FROM {relation} WHERE {column} IS NULL")),
        "columns_may_have_any_name[with space]",
    ),
    "a check that passes on a missing column": (
        check(query=counting("SELECT count(*) FROM {relation} WHERE false")),
        "a_column_that_is_missing_is_told",
    ),
    "a check that raises for a malformed body": (
        check(define=lambda self, body: NotNull.define(self, body[0] and body)),
        "malformed_bodies_are_refused",
    ),
    "a check that changes something": (
        check(query=counting("INSERT INTO {relation} VALUES (1)")),
        "queries_are_one_select_each",
    ),
    "a check without a failing case": (
        type("Kit", (Check,), {"check": NotNull, "cases": Check.cases[:1]}),
        "the_suite_has_cases",
    ),
    "a store that compares nothing": (state(Forgetful), "only_the_stored_version_can_be_replaced"),
    "a store that loses updates": (state(Late), "writers_at_once_lose_no_update"),
    "a store that rounds numbers": (state(Lossy), "what_was_written_is_read_back[numbers]"),
    "a store that does not sort": (state(Trusting), "keys_are_kept_apart"),
    "a store that tells its password": (state(Trusting, secrets=("hunter2hunter2",)), "describe_shows_no_secret"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_kit_finds(what: str) -> None:
    suite, rule = BROKEN[what]
    report = run_suite(suite, only={rule})
    assert [(r.rule, r.outcome) for r in report.results] == [(rule, "failed")], report.results

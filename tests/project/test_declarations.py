from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pytest

from pz_core.errors import Problems, Where
from pz_core.plugins.registry import Registry
from pz_core.project.declarations import read_declaration, write_declaration
from pz_core.project.model import ReadDeclaration, WriteDeclaration
from pz_core.values import Value

Surface = Literal["yaml", "call"]
BOTH: tuple[Surface, ...] = ("yaml", "call")
WHERE = Where("pipelines/a.sql", 3)


def read(
    values: Mapping[str, Value], surface: Surface, subject: str = "crm.orders"
) -> tuple[ReadDeclaration, Problems]:
    problems = Problems()
    made = read_declaration(
        values, subject=subject, where=WHERE, surface=surface, problems=problems, registry=Registry()
    )
    return made, problems


def write(
    values: Mapping[str, Value], surface: Surface, subject: str = "mart.cur"
) -> tuple[WriteDeclaration, Problems]:
    problems = Problems()
    made = write_declaration(
        values, subject=subject, where=WHERE, surface=surface, problems=problems, registry=Registry()
    )
    return made, problems


def codes(problems: Problems) -> list[str]:
    return [e.code for e in problems.errors]


def text(problems: Problems) -> str:
    return "\n".join([e.render() for e in problems.errors] + [n.render() for n in problems.notices])


@pytest.mark.parametrize("surface", BOTH)
def test_options_that_are_not_pz_s_own_are_kept_sorted(surface: Surface) -> None:
    made, problems = write(
        {
            "path": "o/",
            "strategy": "merge",
            "keys": ["id"],
            "format": "csv",
            "sequence_by": ["ts"],
            "retry": {"max_attempts": 5},
        },
        surface,
    )
    assert not problems.any
    assert list(made.options) == ["format", "path", "sequence_by"]
    assert (made.strategy, made.keys, made.retry.max_attempts if made.retry else 0) == ("merge", ("id",), 5)


def test_both_surfaces_give_the_same_declaration() -> None:
    values: dict[str, Value] = {
        "columns": {"id": "bigint", "p": "decimal(10,2)"},
        "sync": {"mode": "incremental", "cursor": "id"},
        "format": "csv",
    }
    one, other = (read(values, surface) for surface in BOTH)
    assert one[0] == other[0]
    assert not one[1].any


@pytest.mark.parametrize("surface", BOTH)
@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        ({"strategy": "upsert"}, "PZ0334", ["upsert", "append", "merge", "replace"]),
        ({"strategy": ["merge"]}, "PZ0334", ["strategy"]),
        ({"strategy": "Merge"}, "PZ0334", ["did you mean 'merge'"]),
        ({"duplicates": True}, "PZ0334", ["accept", "refuse"]),
        ({"strategy": "merge", "keys": ["id"], "on_delete": "vanish"}, "PZ0334", ["delete", "soft", "ignore"]),
        ({"on_delete": "soft"}, "PZ0334", ["merge", "append"]),
        ({"strategy": "replace", "on_delete": "soft"}, "PZ0334", ["merge", "replace"]),
        ({"schema_policy": "aditive"}, "PZ0334", ["'additive'"]),
        ({"keys": "id"}, "PZ0101", ["keys"]),
        ({"keys": [1]}, "PZ0101", ["keys"]),
        ({"keys": [""]}, "PZ0101", ["keys"]),
        ({"rate_limit": {"requests_per_minute": 5}}, "PZ0318", ["rate_limit", "cur"]),
        ({"retry": {"max_attempts": 0}}, "PZ0121", ["max_attempts"]),
    ],
)
def test_a_bad_write_option_is_refused_on_either_surface(
    surface: Surface, values: dict[str, Value], code: str, words: list[str]
) -> None:
    _, problems = write(values, surface)
    assert codes(problems) == [code]
    assert "pipelines/a.sql:3" in text(problems)
    for word in ["mart", "cur", *words]:
        assert word in text(problems)


@pytest.mark.parametrize("surface", BOTH)
def test_an_unknown_strategy_hides_no_other_fault_and_draws_none(surface: Surface) -> None:
    _, problems = write({"strategy": "upsert", "on_delete": "soft", "keys": "id"}, surface)
    assert codes(problems) == ["PZ0334", "PZ0101"]


def test_a_strategy_of_an_unlisted_package_comes_with_the_line_to_add() -> None:
    class Fake(Registry):
        def names(self, kind: object) -> tuple[str, ...]:
            return ("append",)

    problems = Problems()
    write_declaration(
        {"strategy": "merge"}, subject="a.b", where=WHERE, surface="yaml", problems=problems, registry=Fake(allowed=[])
    )
    assert "add to plugins" in text(problems)


@pytest.mark.parametrize(
    ("entity", "values", "hint"),
    [
        ("loans", {"schema": "dbo", "table": "loans"}, "'dbo.loans'"),
        ("fines", {"schema": "acct"}, "'acct.fines'"),
        ("a.b", {"table": "c"}, "'a.c'"),
        ("dbo.loans", {"schema": "dbo"}, "delete schema:"),
        ("dbo.loans", {"table": "loans", "schema": "dbo"}, "delete schema: and table:"),
    ],
)
def test_schema_and_table_are_refused_once_with_the_joined_name(
    entity: str, values: dict[str, Value], hint: str
) -> None:
    for surface in BOTH:
        for problems in (read(values, surface, f"c.{entity}")[1], write(values, surface, f"c.{entity}")[1]):
            assert codes(problems) == ["PZ0348"]
            assert hint in text(problems)


def test_names_that_only_the_call_refuses_pass_to_the_connector_from_yaml() -> None:
    values: dict[str, Value] = {
        "mode": "merge",
        "accept_duplicates": True,
        "write": {},
        "input": "z",
        "max_concurrency": 2,
    }
    made, problems = write(values, "call")
    assert sorted(codes(problems)) == ["PZ0112", "PZ0122", "PZ0333", "PZ0333", "PZ0333"]
    assert made.options == {}
    made, problems = write(values, "yaml")
    assert not problems.any
    assert made.options == values
    assert codes(read({"max_concurrency": 2}, "call")[1]) == ["PZ0122"]


@pytest.mark.parametrize(
    "typed", ["strateg", "strategyy", "Strategy", "ke", "kees", "KEYS", "on_deletee", "retri", "schema-policy"]
)
def test_a_near_miss_at_the_call_warns_and_stays_an_option(typed: str) -> None:
    if typed == "ke":
        typed = "key"
    made, problems = write({typed: "x"}, "call")
    assert not problems.any
    assert [n.code for n in problems.notices] == ["PZ0208"]
    assert typed in problems.notices[0].message
    assert made.options == {typed: "x"}
    assert not write({typed: "x"}, "yaml")[1].notices


@pytest.mark.parametrize("typed", ["format", "startegy", "k", "strategies", "policy", "keyring"])
def test_two_edits_are_no_near_miss(typed: str) -> None:
    assert not write({typed: "x"}, "call")[1].notices


@pytest.mark.parametrize("surface", BOTH)
def test_incremental_is_refused_with_its_rewrite(surface: Surface) -> None:
    _, problems = read({"incremental": {"cursor": "ts", "initial": "2026-01-01"}}, surface)
    assert codes(problems) == ["PZ0332"]
    assert ("cursor: ts" if surface == "yaml" else "cursor: 'ts'") in text(problems)
    assert "mode: " in text(problems)
    assert "initial" in text(problems)


@pytest.mark.parametrize("surface", BOTH)
@pytest.mark.parametrize(
    "sync",
    [
        "incremental",
        {"cursor": "ts"},
        {"mode": "cdcc"},
        {"mode": 5},
        {"mode": "incremental"},
        {"mode": "incremental", "cursor": ""},
        {"mode": "incremental", "cursor": ["a"]},
        {"mode": "auto", "cursor": "ts"},
        {"mode": "cdc", "cursor": "ts"},
        {"mode": "cdc", "slot": {}},
        {"mode": "incremental", "cursor": "ts", "windw": "1d"},
        {},
    ],
)
def test_a_sync_block_that_breaks_the_rules_of_its_mode_is_refused(surface: Surface, sync: Value) -> None:
    made, problems = read({"sync": sync}, surface)
    assert codes(problems) == ["PZ0334"]
    assert made.sync is None


def test_numbers_of_a_sync_block_are_kept_as_text() -> None:
    made, problems = read({"sync": {"mode": "incremental", "cursor": "id", "initial": 10, "max_window": 5}}, "call")
    assert not problems.any
    assert made.sync is not None
    assert (made.sync.initial, made.sync.max_window, made.sync.until) == ("10", "5", None)


@pytest.mark.parametrize("surface", BOTH)
@pytest.mark.parametrize(
    "columns",
    [
        ["id"],
        "id",
        {"id": {"type": "int"}},
        {"id": ["int"]},
        {"id": "banana"},
        {"id": "BIGINT"},
        {"id": "decimal(39,2)"},
        {"id": "decimal(2,3)"},
        {"id": "decimal(10"},
        {"id": 5},
        {"id": ""},
        {"": "int"},
        {"id": "int", "ID": "int"},
    ],
)
def test_a_contract_that_is_no_mapping_of_names_to_words_is_refused(surface: Surface, columns: Value) -> None:
    _, problems = read({"columns": columns}, surface)
    assert codes(problems) == ["PZ0101"]
    assert "columns" in text(problems)


def test_every_bad_column_is_told_and_an_empty_contract_is_none() -> None:
    assert codes(read({"columns": {"a": "banana", "b": "int", "c": "apple"}}, "yaml")[1]) == ["PZ0101", "PZ0101"]
    assert read({"columns": {}}, "yaml")[0].columns is None
    made, problems = read({"columns": {"a": "decimal(10, 2)", "b": "timestamptz"}}, "call")
    assert not problems.any
    assert made.columns == {"a": "decimal(10, 2)", "b": "timestamptz"}

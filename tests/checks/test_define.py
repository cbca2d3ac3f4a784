from __future__ import annotations

from typing import Any

import pytest

from pz_core.checks.accepted_values import AcceptedValues
from pz_core.checks.custom_sql import CustomSql, statements
from pz_core.checks.freshness import Freshness
from pz_core.checks.not_null import NotNull
from pz_core.checks.row_count import RowCount
from pz_core.checks.unique import Unique
from pz_core.contract import Check, CheckFault
from pz_core.plugins import Registry

CLASSES = {c.name: c for c in (AcceptedValues, CustomSql, Freshness, NotNull, RowCount, Unique)}


def make(kind: str) -> Check:
    return CLASSES[kind]()


def test_registry_finds_all_six_through_the_hook() -> None:
    registry = Registry()
    for kind, target in CLASSES.items():
        assert registry.load("check", kind) is target


@pytest.mark.parametrize("kind", ["not_null", "unique"])
@pytest.mark.parametrize("body", [["id", "mail"], {"columns": ["id", "mail"]}, ("id", "mail")])
def test_key_checks_take_a_list_or_columns(kind: str, body: Any) -> None:
    assert make(kind).define(body).columns == ("id", "mail")


def test_single_column_forms() -> None:
    assert make("unique").define({"column": "id"}).columns == ("id",)
    assert make("freshness").define({"columns": ["at"], "max_age": "7d"}).columns == ("at",)


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("not_null", [], ["column"]),
        ("not_null", None, ["column"]),
        ("not_null", "id", ["list"]),
        ("not_null", {}, ["column"]),
        ("unique", {"columns": []}, ["columns"]),
        ("unique", {"columns": "id"}, ["columns", "list"]),
        ("unique", ["id", 7], ["text"]),
        ("unique", ["id", " "], ["text"]),
        ("unique", {"column": "id", "columns": ["id"]}, ["column", "columns"]),
        ("unique", {"column": "id", "where": "x"}, ["where"]),
        ("row_count", {}, ["min", "max"]),
        ("row_count", [1], ["min", "max"]),
        ("row_count", {"min": "1"}, ["min"]),
        ("row_count", {"min": True}, ["min"]),
        ("row_count", {"max": 1.5}, ["max"]),
        ("row_count", {"min": 9, "max": 2}, ["min", "max", "9", "2"]),
        ("row_count", {"min": 1, "column": "id"}, ["column"]),
        ("freshness", "at", ["column", "max_age"]),
        ("freshness", {"column": "at"}, ["max_age"]),
        ("freshness", {"max_age": "1h"}, ["column"]),
        ("freshness", {"columns": ["a", "b"], "max_age": "1h"}, ["exactly one"]),
        ("freshness", {"column": "at", "max_age": "0s"}, ["max_age"]),
        ("freshness", {"column": "at", "max_age": 3600}, ["max_age"]),
        ("freshness", {"column": "at", "max_age": "1 h"}, ["max_age"]),
        ("accepted_values", {"column": "s", "values": []}, ["values"]),
        ("accepted_values", {"column": "s"}, ["values"]),
        ("accepted_values", {"column": "s", "values": "a"}, ["values"]),
        ("accepted_values", {"column": "s", "values": [["a"]]}, ["values"]),
        ("accepted_values", {"column": "s", "values": [None]}, ["values"]),
        ("accepted_values", {"column": "s", "values": [float("inf")]}, ["values"]),
        ("accepted_values", {"columns": ["a", "b"], "values": [1]}, ["exactly one"]),
        ("accepted_values", {"column": "s", "values": [1], "quote": True}, ["quote"]),
        ("custom_sql", {"name": "Bad-Name", "sql": "select 1"}, ["name"]),
        ("custom_sql", {"name": "ok\n", "sql": "select 1"}, ["name"]),
        ("custom_sql", {"sql": "select 1"}, ["name"]),
        ("custom_sql", {"name": "ok"}, ["sql"]),
        ("custom_sql", {"name": "ok", "sql": " ; -- nothing\n/* ; */ ;"}, ["sql", "empty"]),
        ("custom_sql", {"name": "ok", "sql": "select 1; delete from t"}, ["2 statements"]),
        ("custom_sql", {"name": "ok", "sql": "select 1", "column": "id"}, ["column"]),
        ("custom_sql", "select 1", ["name", "sql"]),
    ],
)
def test_malformed_bodies_are_refused_naming_the_option(kind: str, body: Any, says: list[str]) -> None:
    with pytest.raises(CheckFault) as caught:
        make(kind).define(body)
    for word in says:
        assert word in str(caught.value)


def test_all_faults_of_a_body_are_told_at_once() -> None:
    with pytest.raises(CheckFault) as caught:
        make("freshness").define({"max_age": "soon", "colour": "red"})
    assert all(word in str(caught.value) for word in ("'column'", "max_age", "colour"))


def test_a_malformed_column_is_one_fault_without_a_follow_up() -> None:
    with pytest.raises(CheckFault) as caught:
        make("freshness").define({"column": ["a", "b"], "max_age": "24h"})
    assert ";" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select 1;;\n;", ["select 1"]),
        ("select ';' as a; -- done;", ["select ';' as a"]),
        ("select 'it''s;' ; ", ["select 'it''s;'"]),
        (r"select e'\';' ;", [r"select e'\';'"]),
        ('select 1 as "a;b"', ['select 1 as "a;b"']),
        ("select $q$ ; $q$", ["select $q$ ; $q$"]),
        ("select $$;$$; select 2", ["select $$;$$", "select 2"]),
        ("select a$$b from t; select 1", ["select a$$b from t", "select 1"]),
        ("/* ; /* ; */ ; */ select 1", ["/* ; /* ; */ ; */ select 1"]),
        ("select 1 -- ;\n + 1", ["select 1 -- ;\n + 1"]),
        ("; select 1", ["select 1"]),
        ("select '", ["select '"]),
    ],
)
def test_statements_are_told_apart_only_by_semicolons_that_end_one(sql: str, found: list[str]) -> None:
    assert statements(sql) == found


def test_identity_tells_true_from_one_and_text_from_number() -> None:
    from pz_core.values import canonical_json

    made = {
        canonical_json(make("accepted_values").define({"column": "c", "values": [v]}).options)
        for v in (1, 1.0, True, "1", "true")
    }
    assert len(made) == 5


@pytest.mark.parametrize(
    "sql",
    [
        "select 1) as a, (select 2",
        "select (1",
        "select 1)",
        "select ')' from (t",
        'select ")" from (t',
        "select 1 -- (\n)",
    ],
)
def test_a_query_cannot_leave_the_parentheses_that_it_is_put_in(sql: str) -> None:
    with pytest.raises(CheckFault, match="parenthesis"):
        make("custom_sql").define({"name": "a", "sql": sql})


@pytest.mark.parametrize(
    "sql",
    ["select (1) -- )", "select ')' || $$)($$ || e'\\')' /* ( /* ) */ */", 'select ")" from t', "select f((1), (2))"],
)
def test_parentheses_in_texts_names_and_comments_do_not_count(sql: str) -> None:
    assert make("custom_sql").define({"name": "a", "sql": sql}).options["sql"] == sql

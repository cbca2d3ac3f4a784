"""What the environment brings into a project stands in no message, whoever words it."""

from __future__ import annotations

import pytest

from pz_core.errors import Notice, PzError, PzErrors, withhold, without_withheld

BASE = "name: depot\nversion: 0.1.0\n"


@pytest.fixture(autouse=True)
def _forget():
    yield
    withhold({}, afresh=True)


def test_a_value_of_a_connection_is_replaced_by_its_variable_in_errors_and_notices(connections) -> None:
    folder = connections("mart: {connector: duckdb, path: '${MART_FILE}'}\n")
    folder.load(MART_FILE="/srv/hunter2/mart.duckdb")
    error = PzError("PZ0311", 'Cannot open file "/srv/hunter2/mart.duckdb"', hint="see /srv/hunter2/mart.duckdb.wal")
    assert error.message == 'Cannot open file "${MART_FILE}"'
    assert error.hint == "see ${MART_FILE}.wal"
    assert "hunter2" not in str(error) + str(error.as_dict()) + str(PzErrors([error]))
    assert Notice("note", "/srv/hunter2/mart.duckdb is empty").message == "${MART_FILE} is empty"


def test_variables_of_project_yml_and_of_env_are_withheld_too(folder) -> None:
    folder.write({"project.yml": BASE + "env: [API_KEY]\nvars: {nested: [{token: 'Bearer ${TOKEN}'}]}\n"})
    folder.load(API_KEY="abcd-1234", TOKEN="s3cr3t", OTHER="plain")
    assert without_withheld("abcd-1234, s3cr3t, plain") == "${API_KEY}, ${TOKEN}, plain"


def test_what_the_project_itself_calls_its_things_stays_readable(folder) -> None:
    folder.write(
        {
            "project.yml": BASE + "env: [ONE, TWO, THREE, FOUR]\n",
            "connections.yml": "lake: {connector: localfiles, root: '${FIVE}', entities: {mart.orders: }}\n",
            "pipelines/customers.sql": "select 1 as a",
        }
    )
    folder.load(ONE="lake", TWO="orders", THREE="customers", FOUR="localfiles", FIVE="out1")
    assert without_withheld("lake orders customers localfiles out1") == "lake orders customers localfiles ${FIVE}"


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("pass", "pass passed pass_word 'pass'", "${V} passed pass_word '${V}'"),  # a short one only as a word
        ("hunter22", "xhunter22x", "x${V}x"),
        ("5432", "port 5432", "port 5432"),
        ("abc", "abc", "abc"),
        ("a.b+c", "a.b+c axb+c", "${V} axb+c"),
    ],
)
def test_a_value_is_taken_out_where_it_stands_for_itself(value: str, text: str, shown: str) -> None:
    withhold({value: "${V}"}, afresh=True)
    assert without_withheld(text) == shown


def test_the_longest_value_wins_and_the_next_project_starts_afresh(folder) -> None:
    withhold({"secret": "${A}", "secret/path": "${B}"}, afresh=True)
    assert without_withheld("secret/path secret") == "${B} ${A}"
    folder.load()
    assert without_withheld("secret/path") == "secret/path"


def test_a_message_swollen_by_a_name_of_a_million_characters_is_cut_where_it_is_printed() -> None:
    error = PzError("PZ0104", f"'{'a' * 1_000_000}' is not known", hint="b" * 1_000_000)
    assert len(error.render()) < 10_000
    assert error.render().startswith("error PZ0104: 'aaa") and "is not known" in error.render()

from __future__ import annotations

from collections.abc import Callable

import pytest

from pz_core.errors import Problems
from pz_core.project.interpolate import interpolate
from pz_core.project.yaml import parse_yaml

from .conftest import Folder

Write = Callable[[str], Folder]


def config(text: str, **environ: str) -> dict[str, object]:
    problems = Problems()
    block = parse_yaml(text, "f.yml", problems)
    assert block is not None
    made = interpolate(block, environ, path="c", file="f.yml", problems=problems)
    assert not problems.any
    assert isinstance(made, dict)
    return dict(made)


@pytest.mark.parametrize(
    "text", ["0123", "1.10", "1e5", "+5", "p-1", "", " 5", "True", "9223372036854775808", "-0", ".inf"]
)
def test_a_plain_reference_stays_text_where_the_value_would_not_print_back(text: str) -> None:
    assert config("k: ${X}", X=text) == {"k": text}


@pytest.mark.parametrize(("text", "expected"), [("5432", 5432), ("true", True), ("1.5", 1.5), ("-3", -3)])
def test_a_plain_reference_is_typed_where_the_value_prints_back(text: str, expected: object) -> None:
    made = config("k: ${X}\nq: '${X}'\nb: |-\n  ${X}\n", X=text)
    assert made == {"k": expected, "q": text, "b": text}
    assert type(made["k"]) is type(expected)


def test_what_a_variable_brings_in_is_not_expanded_again() -> None:
    hostile = "pa$$w{0}rd${HOME}#;@:/%{{ nope }}$${X}"
    made = config("a: ${P}\nb: ['${P}', {c: 'x${P}y'}]\n", P=hostile, HOME="/root", X="1")
    assert made == {"a": hostile, "b": [hostile, {"c": f"x{hostile}y"}]}


@pytest.mark.parametrize("text", ["$NAME", "${1X}", "${A-B}", "${}", "${ X }", "$${X}"])
def test_what_is_no_reference_is_left_alone(text: str) -> None:
    assert config(f'k: "{text}"', X="1", NAME="1") == {"k": text.replace("$${", "${")}


def test_every_occurrence_of_an_unset_variable_is_told_at_its_line(connections: Write) -> None:
    folder = connections(
        "db:\n  connector: postgres\n  host: ${A}-${A}\n  deep:\n    - list:\n        - x: ${B}\n  text: |\n"
        "    one\n    ${C}\n"
    )
    assert folder.faults() == [f"PZ0103 connections.yml:{line}" for line in (3, 3, 6, 9)]
    assert "db.deep[0].list[0].x" in folder.lines()
    assert folder.faults(A="1", B="2") == ["PZ0103 connections.yml:9"]


def test_a_variable_set_to_nothing_counts_as_set(connections: Write) -> None:
    assert connections("db: {connector: pg, host: '${A}'}").load(A="").project.connections["db"].config == {"host": ""}


def test_reserved_keys_and_entities_are_not_interpolated(connections: Write) -> None:
    folder = connections(
        "db:\n  connector: ${K}\n  entities:\n    t:\n      read:\n        base: ${U}\n        tags: [a, "
        "'${V}', '$${W}']\n"
    )
    loaded = folder.load(U="secret-1", V="secret-2", K="secret-3")
    connection = loaded.project.connections["db"]
    assert connection.connector == "${K}"
    read = connection.entities["t"].read
    assert read is not None
    assert read.options == {"base": "${U}", "tags": ["a", "${V}", "$${W}"]}
    assert [(n.code, n.where.line) for n in loaded.notices] == [("PZ0133", 6), ("PZ0133", 7)]
    assert "db" in loaded.notices[0].message
    assert "base" in loaded.notices[0].message


def test_an_interpolated_value_stands_in_no_message_and_no_repr(connections: Write) -> None:
    folder = connections(
        "db:\n  connector: pg\n  password: '${PW}'\n  max_concurrency: no\n  rate_limit: ${PW}\n"
        "  retry: ${PW}\n  other: ${MISSING}\n"
    )
    assert "hunter2" not in folder.lines(PW="hunter2")
    loaded = connections("db: {connector: pg, password: '${PW}'}").write(
        {"project.yml": "name: a\nversion: 1.0.0\nvars: {k: '${PW}'}"}
    )
    assert "hunter2" not in repr(loaded.load(PW="hunter2"))

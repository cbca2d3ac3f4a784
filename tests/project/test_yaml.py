from __future__ import annotations

import math

import pytest

import pz_core.project.yaml as pz_yaml
from pz_core.errors import Problems
from pz_core.project.yaml import Block, Text, parse_yaml, to_value


def parse(text: str) -> tuple[Block | None, list[str]]:
    problems = Problems()
    block = parse_yaml(text, "f.yml", problems)
    return block, [f"{e.code} {e.where} {e.message}" for e in problems.errors]


def value(text: str) -> object:
    block, faults = parse(f"k: {text}\n")
    assert not faults
    assert block is not None
    node = block.get("k")
    assert node is not None
    return to_value(node)


@pytest.mark.parametrize(
    "text",
    [
        "off",
        "No",
        "yes",
        "True",
        "FALSE",
        "2026-01-01",
        "12:30",
        "12:30:00",
        "0123",
        "00.5",
        "1_000",
        "null",
        "~",
        "0x1F",
        "0o17",
        "+5",
        "-0",
        "9223372036854775808",
        "99999999999999999999999",
        "1e999",
        "1.2.3",
        ".",
        "-",
        "1e",
        "Infinity",
        "NaN",
    ],
)
def test_a_plain_scalar_of_any_other_form_stays_the_text_it_is(text: str) -> None:
    if text == "-":
        text = "-x"
    assert value(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-5", -5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.10", 1.1),
        ("1e5", 1e5),
        (".5", 0.5),
        ("-2.5E-3", -0.0025),
        ("true", True),
        ("false", False),
        (".inf", math.inf),
    ],
)
def test_plain_integers_floats_and_switches_are_typed(text: str, expected: object) -> None:
    made = value(text)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize("text", ['"5"', "'true'", "!!str 5", "|\n  5\n", ">-\n  5\n"])
def test_what_was_quoted_tagged_as_text_or_a_block_stays_text(text: str) -> None:
    made = value(text)
    assert isinstance(made, str)
    assert made.strip() in ("5", "true")


def test_an_empty_value_is_the_empty_text() -> None:
    assert value("") == ""


@pytest.mark.parametrize("text", ["", "# only this\n", "---\n", "~\n", "null\n", "\ufeff# mark\n"])
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    block, faults = parse(text)
    assert (block, faults) == (Block(block.line if block else 1), [])


def test_every_repeated_key_is_told_at_its_line_and_the_first_one_stands() -> None:
    block, faults = parse("a: 1\nb:\n  c: 1\n  'c': 2\na: 2\n")
    assert [f.split(" key")[0] for f in faults] == ["PZ0101 f.yml:4", "PZ0101 f.yml:5"]
    assert block is not None
    assert to_value(block) == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: [", 2, "cannot be read"),
        ("a: 1\n---\nb: 1\n", 2, "more than one document"),
        ("a: 1\n\tb: 2\n", 2, "cannot be read"),
        ("a: 1\nb: &x [*x]\n", 2, "alias"),
        ("a: *nobody\n", 1, "alias"),
        ("a: 1\nb: \x01\n", 2, "control character"),
        ("- 1\n", 1, "mapping"),
        ("just text\n", 1, "mapping"),
        ("a: 1\nb: {? [x] : 1}\n", 2, "key"),
        ("a: {{ var }}\n", 1, "key"),
        ("a: 1\nb: !Ref x\n", 2, "tag"),
        ("a: !set {x: 1}\n", 1, "tag"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge"),
        ("a: " + "[" * 5000, None, "nested"),
        ("a: " + "[" * 500 + "]" * 500, None, "nested"),
        ("- " * 50_000, None, "nested"),
    ],
)
def test_a_document_that_cannot_be_used_is_one_fault_with_its_line(text: str, line: int | None, word: str) -> None:
    block, faults = parse(text)
    assert block is None
    assert len(faults) == 1
    assert faults[0].startswith("PZ0101 f.yml")
    assert word in faults[0]
    if line is not None:
        assert f"f.yml:{line} " in faults[0]


def test_aliases_that_blow_up_are_refused_at_once() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for one, other in zip("bcdefgh", "abcdefg", strict=True):
        text += f"{one}: &{one} [{', '.join([f'*{other}'] * 10)}]\n"
    block, faults = parse(text)
    assert block is None
    assert "1000000" in faults[0]


def test_an_alias_is_the_value_that_it_names() -> None:
    block, faults = parse("a: &x {n: 1, t: '1'}\nb: *x\n")
    assert not faults
    assert block is not None
    assert to_value(block) == {"a": {"n": 1, "t": "1"}, "b": {"n": 1, "t": "1"}}


def test_lines_are_those_of_keys_and_values() -> None:
    block, _ = parse("\na:\n  b:\n    - x\n    - y: 1\n")
    assert block is not None
    inner = block.fields["a"].node
    assert isinstance(inner, Block)
    assert (block.line_of("a"), inner.line_of("b")) == (2, 3)
    assert [item.line for item in inner.fields["b"].node.items] == [4, 5]  # type: ignore[union-attr]


def test_the_portable_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: 0123\nb: '5'\nc: |\n  x\nd: [1, true, off]\ne:\nf: &x 1.5\ng: *x\nh: !!str 5\n"
    fast, _ = parse(text)
    import builtins

    real = builtins.__import__

    def without_libyaml(name: str, *args: object, **kwargs: object) -> object:
        if name == "yaml._yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_libyaml)
    monkeypatch.setattr(pz_yaml, "_LOADER", [])
    slow, faults = parse(text)
    assert not faults
    assert fast is not None
    assert slow is not None
    assert to_value(slow) == to_value(fast)
    assert slow.fields["c"].node == fast.fields["c"].node
    assert parse("a: [")[1]
    assert parse("- " * 50_000)[1]


def test_a_scalar_knows_whether_it_was_plain() -> None:
    block, _ = parse("a: x\nb: 'x'\n")
    assert block is not None
    assert block.get("a") == Text(1, "x", True)
    assert block.get("b") == Text(2, "x", False)

from __future__ import annotations

from collections.abc import Callable

import pytest

from pz_core.compile.template import Rendered

Render = Callable[..., Rendered]
Refuse = Callable[..., list[tuple[str, int | None, str]]]

MARK = {"x": "RENDERED"}
CALL = "{{ var('x') }}"


@pytest.mark.parametrize(
    "text",
    [
        f"select 1 -- {CALL}\n, 2",
        f"select 1 --{CALL}",
        f"/* {CALL} */ select 1",
        f"/* a /* {CALL} */ {CALL} */ select 1",
        f"select 'it''s' -- {CALL}",
        f"select E'it\\'s' -- {CALL}",
        f'select "a""b" -- {CALL}',
        f"select $$ ' $$ -- {CALL}",
        f"select $t$ $$ ' $t$ -- {CALL}",
        f"select a$$b -- ' {CALL} $$",
        f"select 1 /* {{% if %}} {{# {CALL} */",
        f"select name'' -- {CALL}",
        f"select '{{{{ 'a' }}}}' -- {CALL}".replace("{{ 'a' }}", "a"),
    ],
)
def test_a_comment_stays_byte_for_byte(rendered: Render, text: str) -> None:
    assert rendered(text, MARK).text == text


@pytest.mark.parametrize(
    "text",
    [
        f"select '-- {CALL}'",
        f"select 'x /* ' || '{CALL}'",
        f'select "odd--name", {CALL}',
        f"select $$ -- {CALL} $$",
        f"select $tag$ /* {CALL} $tag$",
        f"select 'it''s -- {CALL}'",
        f"select E'\\'-- {CALL}'",
        f"select e'\\\\', {CALL}",
        f"/* x */ select {CALL}",
        f"-- x\nselect {CALL}",
        f"select 1 - -{CALL}",
        f"select a$$b, '-- {CALL}'",
        f"select fooE'\\', {CALL}",
        f"select 'é', {CALL} -- é",
    ],
)
def test_a_comment_mark_in_a_string_is_none(rendered: Render, text: str) -> None:
    assert rendered(text, MARK).text == text.replace(CALL, "RENDERED")


def test_an_apostrophe_inside_an_island_is_not_sql(rendered: Render) -> None:
    assert rendered('select {{ "it\'s" | length }}, 1 -- {{ no }}').text == "select 4, 1 -- {{ no }}"


def test_a_jinja_comment_goes(rendered: Render) -> None:
    assert rendered("select 1{# {{ nope }} -- ' \n #}, 2").text == "select 1, 2"


def test_line_ends_become_lf_before_anything_is_read(rendered: Render) -> None:
    assert rendered("select 1 -- x\r, {{ var('x') }}\r\n", MARK).text == "select 1 -- x\n, RENDERED\n"


def test_stripping_never_pulls_code_into_a_comment(rendered: Render) -> None:
    text = "select 1 -- one\n  {%- if true -%}\n  , 2 {%- endif %}\n"
    assert rendered(text).text == "select 1 -- one\n, 2\n"


def test_whitespace_control_strips_sql_only(rendered: Render) -> None:
    assert rendered("a  {{- 1 -}}  b {#- x -#} c {{+ 2 }}").text == "a1bc 2"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("select {{ var('x')\n }}", 1),
        ("select 1,\n {{ sink('a',\n 'b') }}", 2),
        ("select {{ 'a\nb' }}", 1),
        ("select 1\n\n, {{ var('x')", 3),
        ("select '{{'", 1),
    ],
)
def test_an_expression_ends_on_its_line(refused: Refuse, text: str, line: int) -> None:
    found = refused(text, MARK)
    assert [(code, at) for code, at, _ in found] == [("PZ0104", line)]
    assert "connections.yml" in found[0][2]


def test_a_broken_island_does_not_hide_the_next(refused: Refuse) -> None:
    found = refused("select {{ 1 + }},\n{{ 'a\n' }},\n{{ nope }}, {{ var('gone') }},\n{{ 1 ! 2 }}")
    assert [line for _, line, _ in found] == [1, 2, 4, 4, 5]


def test_a_statement_may_span_lines(rendered: Render) -> None:
    assert rendered("{% set a =\n  [1,\n 2] %}{{ a | join(',') }}").text == "1,2"


@pytest.mark.parametrize(
    "text", ["a {% if true", "a {# b", "a {% if true %}", "{% endif %}", "{% for x in [1] %}{% endif %}"]
)
def test_what_is_never_closed_is_refused(refused: Refuse, text: str) -> None:
    assert {code for code, _, _ in refused(text)} == {"PZ0104"}


def test_braces_of_sql_are_written_as_text(rendered: Render, refused: Refuse) -> None:
    assert rendered("select '{{ '{%' }}', '{{ '{{' }}', {'a': {'b': 1}}").text == "select '{%', '{{', {'a': {'b': 1}}"
    assert "{{ '{%' }}" in refused("select 'x{%'")[0][2]
    assert "{{ '{%' }}" in refused("{% raw %}a{% endraw %}")[0][2]


def test_nested_braces_do_not_end_an_island(rendered: Render) -> None:
    assert rendered("{{ {a: {b: [1, {c: 'x}}'}]}}.a.b[1].c }}").text == "x}}"

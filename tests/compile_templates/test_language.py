from __future__ import annotations

from collections.abc import Callable

import pytest

from pz_core.compile.template import Rendered

Render = Callable[..., Rendered]
Refuse = Callable[..., list[tuple[str, int | None, str]]]

VARS = {
    "n": 7,
    "f": 0.1,
    "yes": True,
    "text": "Mixed",
    "list": ["a", "b", "c"],
    "map": {"key": "v", "__class__": "data", "items": [1]},
    "empty": [],
    "sly": "{{ var('n') }} {% if %}",
}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ 1 + 2 * 3 - 4 // 3 % 5 }}", "6"),
        ("{{ 2 ** 10 }} {{ -3 }} {{ +3 }} {{ 7 / 2 }}", "1024 -3 3 3.5"),
        ("{{ 9007199254740993 }} {{ 1e100 }} {{ 0.1 }} {{ 0x10 }}", "9007199254740993 1e+100 0.1 16"),
        ("{{ true }} {{ False }} {{ none }} {{ var('yes') }}", "true false null true"),
        ("{{ 'a' ~ 1 ~ true }} {{ 'a' + 'b' }} {{ 'ab' * 2 }}", "a1true ab abab"),
        (
            "{{ 1 < 2 <= 2 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ 'a' in 'cat' }} {{ 1 not in [2] }}",
            "true true true true true",
        ),
        ("{{ 'a' if var('yes') else 'b' }}{{ 1 and 0 or 3 }}{{ not 0 }}", "a3true"),
        ("{{ var('list')[1:] | join(',') }} {{ var('list')[::-1] | join }} {{ var('list')[-1] }}", "b,c cba c"),
        (
            "{{ var('map').key }} {{ var('map')['key'] }} {{ var('map').__class__ }} {{ var('map').items[0] }}",
            "v v data 1",
        ),
        ("{{ var('text') | upper }}{{ var('text') | lower }}{{ var('list') | length }}", "MIXEDmixed3"),
        (
            "{{ x is defined }} {{ var('n') is defined }} {{ var('gone') is defined }} {{ var('map').no is defined }}",
            "false true false false",
        ),
        ("{{ none is none }} {{ 1 is not none }} {{ 1 is in [1] }}", "true true true"),
        ("{% for x in var('list') %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "a,b,c"),
        ("{% for x in var('list') if x != 'b' %}{{ loop.index }}{{ x }}{{ loop.length }} {% endfor %}", "1a2 2c2 "),
        ("{% for x in var('empty') %}x{% else %}none{% endfor %}", "none"),
        ("{% for k in var('map') %}{{ k }} {% endfor %}", "key __class__ items "),
        ("{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "1234"),
        ("{% if n is defined %}a{% elif 0 %}b{% else %}c{% endif %}", "c"),
        ("{% set a, b = 1, 2 %}{{ a + b }}{% set c %}x{{ a }}{% endset %}{{ c }}", "3x1"),
        ("{% set a = 1 %}{% for x in [1] %}{% set a = 2 %}{{ a }}{% endfor %}{{ a }}", "21"),
        ("{% if true %}{% set a = 2 %}{% endif %}{{ a }}", "2"),
        ("{{ var('sly') }}", "{{ var('n') }} {% if %}"),
        ('{{ "a\\tb" }}', "a\tb"),
    ],
)
def test_the_language(rendered: Render, text: str, made: str) -> None:
    assert rendered(text, VARS).text == made


@pytest.mark.parametrize(
    "text",
    [
        # names
        "{{ nope }}",
        "{{ range(3) }}",
        "{{ dict() }}",
        "{{ lipsum() }}",
        "{{ cycler('a') }}",
        "{{ joiner() }}",
        "{{ namespace() }}",
        "{{ self }}",
        "{{ caller() }}",
        "{{ _ }}",
        "{{ super() }}",
        "{{ environment }}",
        "{{ source }}",
        "{{ ref }}",
        "{{ var }}",
        "{{ [env] }}",
        "{{ var is none }}",
        "{{ run_id() }}",
        "{% set ref = 1 %}",
        "{% set run_id = 1 %}",
        "{% for var in [1] %}{% endfor %}",
        "{% set loop = 1 %}",
        # attributes and methods
        "{{ ''.__class__ }}",
        "{{ [].append }}",
        "{{ var.__globals__ }}",
        "{{ var('list').append('c') }}",
        "{{ var('map').get('a') }}",
        "{{ var('map').keys() }}",
        "{{ 'a'.upper() }}",
        "{{ 'a'.format(1) }}",
        "{{ ''['__class__'] }}",
        "{{ 1 .real }}",
        "{{ run_id.__class__ }}",
        "{{ var('list').__len__ }}",
        "{{ (1).__class__.__mro__ }}",
        "{{ none.x }}",
        "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{% for x in [1] %}{{ loop.cycle('a') }}{% endfor %}",
        "{% for x in [1] %}{{ loop }}{% endfor %}",
        "{% for x in [1] %}{% set y = loop %}{% endfor %}",
        "{{ loop.index }}",
        "{% for x in [1] %}{{ loop['index'] }}{% endfor %}",
        "{{ ref.__init__.__globals__ }}",
        # filters and tests
        "{{ 1 | default(2) }}",
        "{{ 'a' | attr('upper') }}",
        "{{ [1] | map('upper') }}",
        "{{ [1] | tojson }}",
        "{{ 1 | length }}",
        "{{ 'a' | join(',') }}",
        "{{ [[1]] | join(',') }}",
        "{{ [1] | upper }}",
        "{{ 'x' | format(1) }}",
        "{{ 1 is odd }}",
        "{{ 1 is callable }}",
        "{{ 1 is sameas 1 }}",
        "{{ [1] | join(d=',') }}",
        "{{ 'a' | upper(1) }}",
        # values that SQL has no spelling for, and operations that have no result
        "{{ [1] }}",
        "{{ {a: 1} }}",
        "{{ 1, 2 }}",
        "{{ 1e308 * 10 }}",
        "{{ 1.0 / 0.0 }}",
        "{{ 1 / 0 }}",
        "{{ 1 % 0 }}",
        "{{ 1 + 'a' }}",
        "{{ '%s' % 1 }}",
        "{{ [1] * 2 }}",
        "{{ true + 1 }}",
        "{{ -'a' }}",
        "{{ 1 < 'a' }}",
        "{{ (-8) ** 0.5 }}",
        "{{ 'a' if false }}",
        "{{ {a: 1, a: 2}.a }}",
        "{{ {1: 2}[1] }}",
        "{{ [1][5] }}",
        "{{ {a: 1}.b }}",
        "{{ [1]['a'] }}",
        "{{ [1][true] }}",
        "{{ [1][::0] }}",
        "{{ 'a' in 1 }}",
        "{{ var('n') }}{{ var('gone') }}",
        "{% for x in 'abc' %}{% endfor %}",
        "{% for a, b in [[1]] %}{% endfor %}",
        "{{ '\\ud800' }}",
        "{{ '\\x' }}",
        # calls
        "{{ ref() }}",
        "{{ ref('a', 'b') }}",
        "{{ ref(3) }}",
        "{{ ref(name: 'a') }}",
        "{{ var(n) }}",
        "{{ env() }}",
        "{{ watermark('a') }}",
        "{{ ref(*['a']) }}",
        "{{ ref(**{a: 1}) }}",
        "{{ sink('a', x: 1, 'b') }}",
        "{{ ref('a')('b') }}",
        "{{ [ref][0]('a') }}",
        # statements
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% macro m() %}{% endmacro %}",
        "{% call var('n') %}{% endcall %}",
        "{% filter upper %}{% endfilter %}",
        "{% block b %}{% endblock %}",
        "{% raw %}{% endraw %}",
        "{% with a = 1 %}{% endwith %}",
        "{% do 1 %}",
        "{% break %}",
        "{% autoescape true %}{% endautoescape %}",
        "{% print 1 %}",
        "{% debug %}",
        "{% trans %}{% endtrans %}",
        "{% for x in [1] recursive %}{% endfor %}",
        "{% set a.b = 1 %}",
        "{% set 1 = 2 %}",
        "{% else %}",
        "{% if 1 %}{% else %}{% else %}{% endif %}",
        "{% if 1 %}{% else if 2 %}{% endif %}",
        "{% %}",
        "{{ }}",
        "{{ for x in [1] }}",
        "{{ if 1 }}a{{ end }}",
        "{% if %}{% endif %}",
        "{{ a = 1 }}",
        "{{ 1 2 }}",
        "{{ @ }}",
    ],
)
def test_everything_else_is_refused(refused: Refuse, text: str) -> None:
    found = refused(f"select 1,\n{text}", VARS)
    assert {code for code, _, _ in found} == {"PZ0104"}
    assert {line for _, line, _ in found} == {2}


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 10 ** 9 }}",
        "{{ 10 ** (10 ** 9) }}",
        "{{ 2 ** (3 ** (4 ** 5)) }}",
        "{{ 7 ** 7 ** 7 ** 7 ** 7 }}",
        "{{ 2.0 ** 5000 }}",
        "{{ 1" + "0" * 500 + " }}",
        "{% for a in L %}" * 5 + "{% endfor %}" * 5,
        "{% set a = 'aaaaaaaa' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
        "{% set a = 'aaaaaaaa' %}" + "{% set a = a + a %}" * 40,
        "{% set a = [1] %}" + "{% set a = [a, a] %}" * 60,
        "{% set a = [1] %}" + "{% set a = a + a %}" * 60,
        "{% set a = [1] %}" + "{% set a = {x: a, y: a} %}" * 60,
        "{% set a = 'a' * 9999 %}" + "{% for x in L %}" * 3 + "{{ a }}" + "{% endfor %}" * 3,
        "{% set a = L | join('a' * 9000) %}"
        + "{% for x in L %}" * 3
        + "{{ (a | upper) is none }}"
        + "{% endfor %}" * 3,
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "[" * 3000 + "]" * 3000 + " }}",
        "{{ 1" + " + 1" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{% set a = 'a' * 1000000 %}" + "{{ a in a }}{{ a[1:] == a }}" * 60,
    ],
)
def test_a_template_that_would_not_end_is_refused(refused: Refuse, text: str) -> None:
    found = refused(text.replace("L", "[1,2,3,4,5,6,7,8,9,10,11,12]"))
    assert {code for code, _, _ in found} == {"PZ0104"}


def test_ten_thousand_turns_are_allowed_and_counted_over_all_loops(rendered: Render, refused: Refuse) -> None:
    rows = list(range(100))
    text = "{% for a in var('r') %}{% for b in var('r') %}.{% endfor %}{% endfor %}"
    assert (
        rendered(text.replace("{% for a in var('r') %}", "{% for a in var('r')[:99] %}"), {"r": rows}).text
        == "." * 9900
    )
    assert "10000" in refused(text, {"r": rows})[0][2]


def test_a_fault_in_a_loop_is_reported_once(refused: Refuse) -> None:
    assert len(refused("{% for a in [1, 2, 3] %}{{ nope }}{{ var('gone') }}{% endfor %}")) == 2


def test_a_name_with_a_fault_is_no_second_fault(refused: Refuse) -> None:
    assert len(refused("{% set a = var('gone') %}{{ a }}{% if a %}{% endif %}{{ a ~ 1 }}")) == 1
    assert len(refused("{% set a = 1 + %}{{ a }}{% for x in a %}{% endfor %}")) == 1


def test_names_stay_in_their_file(rendered: Render, refused: Refuse) -> None:
    assert rendered("{% set n = 3 %}{{ n }}").text == "3"
    assert refused("{{ n }}")[0][0] == "PZ0104"


def test_a_list_in_sql_is_refused_with_the_way_out(refused: Refuse) -> None:
    assert "join" in refused("select {{ var('list') }}", VARS)[0][2]


def test_rendering_leaves_the_variables_alone(rendered: Render) -> None:
    variables = {"list": [1, 2]}
    rendered("{% set a = var('list') + [3] %}{{ a | join(',') }}", variables)
    assert variables == {"list": [1, 2]}


@pytest.mark.parametrize("text", ["{{ 'a\\0b' }}", "{{ 'a\\x00b' }}", "{% set a = '\\u0000' %}{{ a }}"])
def test_a_nul_is_refused_since_sql_would_end_there(refused: Refuse, text: str) -> None:
    assert [(code, line) for code, line, _ in refused(text)] == [("PZ0104", 1)]


def test_an_entity_with_a_nul_is_refused(refused: Refuse) -> None:
    assert refused("select * from {{ source('a', 'b\\0c') }}")[0][0] == "PZ0104"

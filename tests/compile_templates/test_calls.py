from __future__ import annotations

from collections.abc import Callable

import pytest

from pz_core.compile.model import RunConstants
from pz_core.compile.template import Rendered
from pz_core.errors import Where

Render = Callable[..., Rendered]
Refuse = Callable[..., list[tuple[str, int | None, str]]]


def test_source_renders_the_folded_relation_and_is_recorded(rendered: Render) -> None:
    made = rendered("select *\nfrom {{ source('lot', '/v2/fees-x') }}")
    assert made.text == "select *\nfrom staging.src_lot___v2_fees_x"
    (call,) = made.sources
    assert (call.connection, call.entity, call.declaration, call.where) == (
        "lot",
        "/v2/fees-x",
        None,
        Where("pipelines/mine.sql", 2),
    )


def test_ref_knows_ephemeral_pipelines(rendered: Render) -> None:
    made = rendered("{{ ref('plain') }} {{ ref('inline') }}", ephemeral=("inline",))
    assert made.text == "staging.plain __pz_cte__inline"
    assert [call.name for call in made.refs] == ["plain", "inline"]


def test_sink_and_watermark_leave_their_marks(rendered: Render) -> None:
    made = rendered("INSERT INTO {{ sink('m', 'a.b') }} {{ watermark('crm', \"o'x\") }} {{ this }}")
    assert made.text == "INSERT INTO __pz_sink__m__a.b__ '__pz_watermark__crm__o''x__' staging.mine"
    assert made.sinks[0].marker == "__pz_sink__m__a.b__"
    assert made.watermarks[0].sentinel == "'__pz_watermark__crm__o''x__'"


@pytest.mark.parametrize(
    "options",
    [
        "strategy: 'merge', keys: ['a', 'b'], retry: { max_attempts: 5, base_delay: '2s' }, path: 'p'",
        "strategy='merge', keys=['a', 'b'], retry={ 'max_attempts': 5, base_delay: '2s' }, path='p'",
        "strategy:'merge',keys = var('keys') ,retry: {max_attempts:var('n'),base_delay:'2s',}, path: 'p',",
    ],
)
def test_every_spelling_of_options_reads_the_same(rendered: Render, options: str) -> None:
    made = rendered("INSERT INTO {{ sink('m', 't', " + options + ") }}", {"keys": ["a", "b"], "n": 5})
    write = made.sinks[0].declaration
    assert write is not None
    assert (write.strategy, tuple(write.keys), dict(write.options)) == ("merge", ("a", "b"), {"path": "p"})
    assert write.retry is not None and (write.retry.max_attempts, write.retry.base_delay_ms) == (5, 2000)


def test_marks_inside_text_are_left_alone(rendered: Render) -> None:
    made = rendered("{{ source('a', 'b', path: 'n: {a: 1}, x=2, }} {% ', query: \"select ':=' as x\") }}")
    assert made.sources[0].declaration is not None
    assert made.sources[0].declaration.options == {"path": "n: {a: 1}, x=2, }} {% ", "query": "select ':=' as x"}


def test_words_of_python_are_plain_option_names(rendered: Render) -> None:
    made = rendered("{{ source('a', 'b', class: 1, from: 2, in: 3, lambda=4, None: 5) }}")
    assert made.sources[0].declaration is not None
    assert made.sources[0].declaration.options == {"class": 1, "from": 2, "in": 3, "lambda": 4, "None": 5}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ sink('a', 'b', path: 'x', path: 'y') }}", "PZ0208"),
        ("{{ source('a', 'b', path: 'x', path: 'y') }}", "PZ0201"),
        ("{{ sink('a') }}", "PZ0208"),
        ("{{ sink('a', 'b', 'c') }}", "PZ0208"),
        ("{{ sink('a', 1) }}", "PZ0208"),
        ("{{ source() }}", "PZ0201"),
        ("{{ source('a', 'b', 'c') }}", "PZ0201"),
        ("{{ source('a', true) }}", "PZ0201"),
        ("{{ source('a', 'x y') }}", "PZ0344"),
        ("{{ sink('a', 'a..b') }}", "PZ0344"),
        ("{{ watermark('a', '') }}", "PZ0344"),
        ("{{ source('a', 'b', ratio: 1.0 / 0.0) }}", "PZ0137"),
        ("{{ sink('a', 'b', deep: { x: [1e308 * 10] }) }}", "PZ0137"),
        ("{{ source('a', 'b', x: none) }}", "PZ0104"),
        ("{{ source('a', 'b', x: { y: [none] }) }}", "PZ0104"),
        ("{{ env('SECRET') }}", "PZ0103"),
        ("{{ sink('a', 'b', strategy: 'upsert') }}", "PZ0334"),
        ("{{ sink('a', 'b', keys: 'id') }}", "PZ0101"),
    ],
)
def test_a_call_of_the_wrong_shape_is_refused_at_its_line(refused: Refuse, text: str, code: str) -> None:
    found = refused(f"select 1,\n\n{text}")
    assert [(found_code, line) for found_code, line, _ in found] == [(code, 3)]


def test_the_first_of_repeated_options_counts(refused: Refuse) -> None:
    found = refused("{{ sink('m', 't', strategy: 'merge', keys: 'x', keys: ['a']) }}")
    assert [code for code, _, _ in found] == ["PZ0208", "PZ0101"]


def test_all_faults_of_a_file_come_together(refused: Refuse) -> None:
    found = refused(
        "INSERT INTO {{ sink('m', 't', strategy: 'upsert', path: var('gone')) }}\n"
        "select {{ nope }}, {{ env('HOME') }}\nfrom {{ source('a', 'b..c') }} where {{ ref(1) }} {{ 1 + }}"
    )
    assert sorted((code, line) for code, line, _ in found) == [
        ("PZ0103", 2),
        ("PZ0104", 1),
        ("PZ0104", 2),
        ("PZ0104", 3),
        ("PZ0104", 3),
        ("PZ0334", 1),
        ("PZ0344", 3),
    ]


def test_env_reads_listed_names_only(rendered: Render, refused: Refuse) -> None:
    environ = {"REGION": "north", "SECRET": "hunter2"}
    assert rendered("{{ env('REGION') }}", env=("REGION",), environ=environ).text == "north"
    for text, listed in (("{{ env('SECRET') }}", ("REGION",)), ("{{ env('UNSET') }}", ("UNSET",))):
        found = refused(text, env=listed, environ=environ)
        assert found[0][0] == "PZ0103" and "hunter2" not in found[0][2]


def test_run_constants_are_noticed_and_stable(rendered: Render) -> None:
    constants = RunConstants("20260102T030405000Z-ab12", "2026-01-02T03:04:05.000000Z")
    made = rendered("'{{ run_id }}' '{{ run_started_at }}'", constants=constants)
    assert made.text == "'20260102T030405000Z-ab12' '2026-01-02T03:04:05.000000Z'"
    assert made.uses_run_constants
    assert not rendered("{{ this }} -- {{ run_id }}").uses_run_constants


def test_a_near_miss_warns_and_renders(rendered: Render) -> None:
    made = rendered("INSERT INTO {{ sink('m', 't', strategyy: 'merge') }}")
    assert [notice.code for notice in made.notices] == ["PZ0208"]
    assert "strategyy" in made.notices[0].message


def test_a_commented_call_makes_no_edge(rendered: Render) -> None:
    made = rendered("select 1 -- {{ ref('a') }} {{ source('b', 'c') }}\n/* {{ watermark('a', 'b') }} */")
    assert not (made.refs or made.sources or made.watermarks)


SEED = [
    "INSERT INTO {{ sink('lake', 'orders_curated', format: 'parquet', strategy: 'replace') }}\nselect 1",
    "-- pipelines/orders_enriched.sql\nINSERT INTO {{ sink('lake', 'orders_curated') }}\n"
    "select\n    o.id,\n    o.amount\n"
    "from {{ ref('stg_orders') }} as o\njoin {{ source('crm', 'customers') }} as c\n  on c.id = o.customer_id",
    "-- at the call site: the option and the query it governs are in one file\n"
    "INSERT INTO {{ sink('warehouse', 'mart.orders_current', strategy: 'merge', keys: ['order_id']) }}",
    "select id, email from {{ source('crm', 'customers', path: 'data/customers.csv', format: 'csv') }}",
    "INSERT INTO {{ sink('lake', 'order_totals', strategy: 'replace', format: 'csv', path: 'out/totals/') }}\nselect 1",
    "INSERT INTO [{{ sink('ok', 'ok', strategy: 'replace') }}, {{ sink('flaky', 'flaky', strategy: 'replace') }}]\n"
    "select * from {{ source('crm', 'orders') }}",
    "select o.id from {{ source('crm', 'orders') }} as o\nwhere o.amount > 0\n  "
    "and o.updated_at > {{ watermark('crm', 'orders') }}",
    "where updated_at >  coalesce({{ watermark('crm','orders') }}, TIMESTAMP '2026-01-01')\n"
    "  and updated_at <= least(coalesce({{ watermark('crm','orders') }}, TIMESTAMP '2026-01-01') + interval 7 day, x)",
    "{{ sink('a', 'b', strategy: 'merge', keys: ['x'], retry: { max_attempts: 5 }) }}",
]


@pytest.mark.parametrize("text", SEED)
def test_the_documented_examples_render(rendered: Render, text: str) -> None:
    made = rendered(text).text
    assert "{{" not in made and made.count("\n") == text.count("\n")

from __future__ import annotations

import pytest

from pz_core.compile.model import RunConstants

EPHEMERAL = "materialization: ephemeral\n"

SINK = "INSERT INTO {{ sink('lake','%s', strategy: 'replace') }} "
READ = "{{ source('yard','%s') }}"


def test_nodes_edges_and_order(lab):
    lab.write(
        {"stg": f"select * from {READ % 'carts'}", "top": SINK % "o" + "select * from {{ ref('stg') }}"},
        configs={"top": "checks:\n  - not_null: [id]\n"},
    )
    graph = lab.graph()
    assert [n.name for n in graph.nodes] == ["src_yard__carts", "stg", "top", "check_top_not_null_id", "lake.o"]
    names = {n.id: n.name for n in graph.nodes}
    edges = {n.name: [names[i] for i in n.depends_on] for n in graph.nodes}
    assert edges == {
        "src_yard__carts": [],
        "stg": ["src_yard__carts"],
        "top": ["stg"],
        "check_top_not_null_id": ["top"],
        "lake.o": ["top"],
    }


@pytest.mark.parametrize(
    ("pipelines", "loops"),
    [
        ({"a": "b", "b": "a"}, ["a -> b -> a"]),
        ({"a": "a"}, ["a -> a"]),
        ({"c": "a", "a": "b", "b": "c", "z": "y", "y": "z"}, ["a -> b -> c -> a", "y -> z -> y"]),
    ],
)
def test_loops_are_named_all_around(lab, pipelines, loops):
    lab.write({name: f"select * from {{{{ ref('{other}') }}}}" for name, other in pipelines.items()})
    errors = list(lab.errors())
    assert {e.code for e in errors} == {"PZ0202"}
    assert [e.message.partition(": ")[2] for e in errors] == loops


def test_a_loop_through_an_ephemeral_names_it(lab):
    lab.write({"a": "from {{ ref('e') }}", "e": "from {{ ref('a') }}"}, configs={"e": EPHEMERAL})
    (error,) = lab.errors()
    assert error.code == "PZ0202" and "a -> e -> a" in error.message


def test_a_chain_of_a_thousand_is_no_trouble(lab):
    lab.write({f"p{i:04}": "select 1 as x" if i == 0 else f"from {{{{ ref('p{i - 1:04}') }}}}" for i in range(1000)})
    graph = lab.graph()
    assert [n.name for n in graph.nodes] == [f"p{i:04}" for i in range(1000)]
    assert len(graph.ancestors(graph.nodes[-1].id)) == 999


def test_ephemeral_rules(lab):
    lab.write(
        {
            "e1": "select 1 as x",
            "e2": "select * from {{ ref('e1') }}",
            "e3": "select * from {{ ref('e3') }}",
            "e4": "select * from {{ ref('gone') }}",
        },
        configs={
            name: EPHEMERAL + ("checks:\n  - unique: [x]\n" if name == "e1" else "")
            for name in ("e1", "e2", "e3", "e4")
        },
    )
    found = {(e.code, e.where.file) for e in lab.errors()}
    assert found == {
        ("PZ0205", "pipelines/configs/e1.yml"),
        ("PZ0204", "pipelines/e2.sql"),
        ("PZ0204", "pipelines/e3.sql"),
        ("PZ0201", "pipelines/e4.sql"),
    }


@pytest.mark.parametrize(
    ("body", "query", "rows"),
    [
        ("select 1 as x;", "with q as (select 2 as y) select * from {{ ref('e') }}, q", [(1, 2)]),
        ("select 1 as x -- done", "select * from {{ ref('e') }}", [(1,)]),
        ("select 1 as x; -- done;", "-- with\n/* with */ WITH q as (select 2 as y) from {{ ref('e') }}, q", [(1, 2)]),
        ("select '--' as x", "select * from {{ ref('e') }}", [("--",)]),
        (
            "with a as (select 3 as x) select * from a",
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) "
            "select max(i) as m, max(x) as x from n, {{ ref('e') }}",
            [(3, 3)],
        ),
        ("select 4 as x", "from {{ ref('e') }}", [(4,)]),
        ("select 4 as x", "(select x from {{ ref('e') }}) union all select 5", [(4,), (5,)]),
        ("select 4 as x", "with\"q\" as (select 1 as y) select x, y from {{ ref('e') }}, q", [(4, 1)]),
        ("select 4 as x", "select x as without from {{ ref('e') }}", [(4,)]),
    ],
)
def test_ephemeral_bodies_become_one_with(lab, body, query, rows):
    import duckdb

    lab.write({"e": body, "a": SINK % "o" + query}, configs={"e": EPHEMERAL})
    graph = lab.graph()
    assert [n.name for n in graph.nodes] == ["a", "lake.o"]
    assert duckdb.connect().execute(graph.named("a").sql).fetchall() == rows


def test_a_consumer_takes_over_what_its_ephemeral_reads(lab):
    lab.write(
        {
            "e": f"select * from {READ % 'carts'} join {{{{ ref('t') }}}} using (x)",
            "t": "select 1 as x",
            "a": "from {{ ref('e') }}",
        },
        configs={"e": EPHEMERAL},
    )
    graph = lab.graph()
    assert graph.ancestors(graph.named("a").id) == {graph.named("t").id, graph.named("src_yard__carts").id}
    assert graph.named("a").sources == ("yard.carts",)


def test_an_ephemeral_that_reads_may_have_one_consumer(lab):
    lab.write(
        {"e": f"from {READ % 'carts'}", "a": "from {{ ref('e') }}", "b": "from {{ ref('e') }}"},
        configs={"e": EPHEMERAL},
    )
    (error,) = lab.errors()
    assert error.code == "PZ0349"
    assert "yard.carts" in error.message and "a, b" in error.message and "stg_yard_carts" in error.hint


def test_an_ephemeral_that_nobody_uses_loads_nothing(lab):
    lab.write({"e": f"from {READ % 'carts'}", "t": "select 1 as x"}, configs={"e": EPHEMERAL})
    assert lab.names() == ["t"]


@pytest.mark.parametrize(("first", "second"), [("dbo.carts", "dbo_carts"), ("Carts", "carts")])
def test_datasets_that_land_in_one_relation_are_refused(lab, first, second):
    lab.write({"a": f"from {READ % first}", "b": f"from {READ % second}"})
    (error,) = lab.errors()
    assert error.code == "PZ0110" and f"yard.{first}" in error.message and f"yard.{second}" in error.message


def test_a_pipeline_named_like_a_landing_relation_is_refused(lab):
    lab.write({"SRC_yard__carts": "select 1 as x", "b": f"from {READ % 'carts'}"})
    (error,) = lab.errors()
    assert error.code == "PZ0230" and "SRC_yard__carts" in error.message and "yard.carts" in error.message


def test_check_names_are_unique_and_samples_follow_the_entry(lab):
    lab.write(
        {"carts": "select 1 as id"},
        project="name: d\nversion: 0.1.0\nengine: {check_samples: false}\n",
        configs={
            "carts": "checks:\n  - row_count: {min: 1}\n  - row_count: {max: 9}\n  - not_null: [a_b]\n"
            "  - not_null: [a, b]\n"
            "  - unique: {columns: [id], sample_values: true}\n  - custom_sql: {name: odd, sql: select 1}\n"
        },
    )
    graph = lab.graph()
    assert [n.name for n in graph.nodes[1:]] == [
        "check_carts_not_null_a_b",
        "check_carts_not_null_a_b_2",
        "check_carts_odd",
        "check_carts_row_count",
        "check_carts_row_count_2",
        "check_carts_unique_id",
    ]
    assert len({n.id for n in graph.nodes}) == 7
    assert [n.name for n in graph.nodes[1:] if n.samples] == ["check_carts_unique_id"]


def test_dead_ends_draw_a_warning(lab):
    lab.write(
        {"b": "select 1 as x", "a": SINK % "o" + "from {{ ref('b') }}", "c": "select 2 as x", "d": "select 3 as x"},
        configs={"d": "checks:\n  - row_count: {min: 1}\n"},
    )
    notices = [n for n in lab.graph().notices if n.code == "PZ0223"]
    assert [n.where.file for n in notices] == ["pipelines/c.sql"]


# --- ids -------------------------------------------------------------------------------------------------------------

ONE = {"t": "INSERT INTO {{ sink('lake','o', strategy: 'merge', keys: ['id'], format: 'csv') }} select 1 as id"}


def test_one_declaration_has_one_id_on_either_surface(make):
    call = make(
        {
            "t": "INSERT INTO {{ sink('lake','o', keys: ['id'], strategy: 'merge', on_delete: 'ignore') }} from "
            "{{ source('yard','c', sync: { mode: 'cdc' }, columns: { id: 'bigint' }, deep: { b: 1, a: [true, 'x'] }) }}"
        }
    )
    yaml = make(
        {"t": "INSERT INTO {{ sink('lake','o') }} from {{ source('yard','c') }}"},
        connections="yard: {connector: localfiles, root: elsewhere, entities: {c: {read: {deep: {a: [true, x], b: 1}, "
        "columns: {id: bigint}, sync: {mode: cdc}}}}}\n"
        "lake: {connector: localfiles, entities: {o: {write: {strategy: merge, keys: [id], on_delete: ignore}}}}\n",
    )
    assert [(n.name, n.id) for n in call.graph().nodes] == [(n.name, n.id) for n in yaml.graph().nodes]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("keys: ['id']", "keys: ['id'], retry: { max_attempts: 5 }"), True),
        (("keys: ['id']", "keys: ['id', 'x']"), False),
        (("keys: ['id']", "keys: ['id'], duplicates: 'accept'"), False),
        (("keys: ['id']", "keys: ['id'], schema_policy: 'fail_on_change'"), True),
        (("keys: ['id']", "keys: ['id'], schema_policy: 'evolve'"), False),
        (("format: 'csv'", "format: 'json'"), False),
        (("lake", "yard"), False),
    ],
)
def test_what_is_part_of_a_sinks_id(make, change, same):
    before = make(ONE).graph().nodes[-1]
    after = make({"t": ONE["t"].replace(*change)}).graph().nodes[-1]
    assert (before.id == after.id) is same


def test_ids_do_not_depend_on_what_lies_above(make):
    chain = {"a": "select 1 as x", "b": SINK % "o" + "from {{ ref('a') }}"}
    before = make(chain).graph()
    after = make({**chain, "a": "select 2 as x"}).graph()
    assert before.named("a").id != after.named("a").id
    assert before.named("b").id == after.named("b").id and before.named("lake.o").id == after.named("lake.o").id


def test_ids_of_one_project_are_pinned(make):
    graph = make(
        {"t": "INSERT INTO {{ sink('lake','o', strategy: 'replace') }} from {{ source('yard','c') }}"},
        configs={"t": "checks:\n  - unique: [id]\n"},
    ).graph()
    assert {n.name: n.id for n in graph.nodes} == {
        "src_yard__c": "028a03b26e863323",
        "t": "fc350493693e1aae",
        "check_t_unique_id": "43e6204092112eab",
        "lake.o": "9848b18e35f0cd8e",
    }


def test_constants_of_the_run_are_in_the_sql_and_not_in_the_ids(lab):
    lab.write(
        {
            "e": "select '{{ run_id }}' as r",
            "t": "INSERT INTO {{ sink('lake','o', path: run_id, duplicates: 'accept') }}\n"
            "select '{{ run_started_at }}' as s from {{ ref('e') }}, "
            "{{ source('yard','c', path: run_id, columns: { ts: 'timestamp' }, sync: { mode: 'incremental', "
            "cursor: 'ts', initial: '2020-01-01', max_window: '1d', until: run_started_at }) }}",
        },
        configs={"e": EPHEMERAL},
    )
    first = lab.graph(RunConstants("20260101T000000000Z-aaaa", "2026-01-01T00:00:00.000000Z"))
    second = lab.graph(RunConstants("20260102T000000000Z-bbbb", "2026-01-02T00:00:00.000000Z"))
    assert [n.id for n in first.nodes] == [n.id for n in second.nodes]
    assert "20260101T000000000Z-aaaa" in first.named("t").sql and "2026-01-01T00" in first.named("t").sql
    assert second.named("lake.o").options == {"path": "20260102T000000000Z-bbbb"}
    assert second.named("src_yard__c").sync.until == "2026-01-02T00:00:00.000000"


def test_faults_stop_at_the_stage_that_found_them(lab):
    lab.write({"b_bad": "select {{ var('q') }} as x", "a_bad": "select * from {{ ref('zz') }}"})
    assert lab.codes() == ["PZ0104"]


def test_the_joint_batch_reports_across_its_rules_in_file_order(lab):
    lab.write(
        {
            "z": "select * from {{ ref('zz') }}",
            "a": "INSERT INTO {{ sink('lake','a', strategy: 'merge', files_per_partition: 0) }} select 1; select 2",
            "e": "select 1 as x",
        },
        connections="lake: {connector: pg, entities: {b: {write: {keys: [id]}}}}\n",
        configs={"e": EPHEMERAL + "checks:\n  - unique: [x]\n"},
    )
    assert [e.code for e in lab.errors()] == ["PZ0211", "PZ0401", "PZ0209", "PZ0222", "PZ0205", "PZ0201"]


def test_flows_are_components_labelled_by_sinks_or_leaves(lab):
    lab.write(
        {
            "base": "select 1 as x",
            "b": SINK % "bb" + "from {{ ref('base') }}",
            "a": SINK % "aa" + "from {{ ref('base') }}",
            "lone": "select 1 as x",
        },
        configs={"lone": "checks:\n  - row_count: {min: 1}\n"},
    )
    assert [f.label for f in lab.graph().flows] == ["lake.aa + lake.bb", "lone"]

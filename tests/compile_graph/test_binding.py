from __future__ import annotations

import pytest

SELECT = "select 1 as x"


def sink(text: str) -> str:
    return "{{ sink(" + text + ") }}"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("INSERT INTO $A\nselect 1 as x;\n", SELECT),
        ("-- why\n  insert  into $A\nselect 1 as x", SELECT),
        ("/* a /* nested */ b */ INSERT\nINTO $A select 1 as x", SELECT),
        ("INSERT INTO [$A,$B]\nselect 1 as x", SELECT),
        ("INSERT INTO[ $A ,\n $B ] select 1 as x", SELECT),
        ("INSERT INTO $A\n-- kept\nselect 1 as x", "-- kept\nselect 1 as x"),
        ("INSERT INTO $A\nwith q as (select 1 as x) select * from q", "with q as (select 1 as x) select * from q"),
        ("-- INSERT INTO {{ sink('nowhere','z') }}\nINSERT INTO $A select 1 as x", SELECT),
    ],
)
def test_leading_insert_is_taken_off(lab, text, sql):
    text = text.replace("$A", sink("'lake','a'")).replace("$B", sink("'yard','b'"))
    graph = lab.write({"t": text}).graph()
    assert graph.named("t").sql == sql
    assert graph.named("lake.a").depends_on == (graph.named("t").id,)


@pytest.mark.parametrize(
    "text",
    [
        "select * from $A",
        "INSERT INTO $A select $B as x",
        "INSERT INTO [$A, $A] select 1 as x",
        "with q as (select 1 as x) INSERT INTO $A select * from q",
        "INSERT INTO $Aselect 1 as x",
        "INSERT INTO $A",
        "INSERT INTO [$A select 1 as x",
        "INSERT INTO [$A,] select 1 as x",
        "INSERT INTO $A, $B select 1 as x",
        "INSERT OVERWRITE $A select 1 as x",
        "INSERT INTO x $A select 1 as x",
        "{% set s = sink('lake','a') %}select 1 as x",
    ],
)
def test_sink_anywhere_else_is_refused(lab, text):
    text = text.replace("$A", sink("'lake','a'")).replace("$B", sink("'lake','b'"))
    errors = lab.write({"t": text}).errors()
    assert {e.code for e in errors} == {"PZ0208"}
    assert all("'t'" in e.message and "lake." in e.message and e.where.file == "pipelines/t.sql" for e in errors)


def test_marker_of_an_entity_that_begins_like_another(lab):
    text = "INSERT INTO [{{ sink('lake','a') }}, {{ sink('lake','a__b') }}, {{ sink('lake','it--s') }}] select 1 as x"
    assert lab.write({"t": text}).names() == ["t", "lake.a", "lake.a__b", "lake.it--s"]


def test_sink_on_an_ephemeral_is_refused(lab):
    lab.write({"t": "INSERT INTO {{ sink('lake','a') }} select 1 as x"}, configs={"t": "materialization: ephemeral\n"})
    assert lab.codes() == ["PZ0208"]


def test_shape_faults_end_the_compile_before_names_are_looked_up(lab):
    lab.write({"a": "select {{ sink('lake','a') }}", "b": "select * from {{ ref('zz') }}"})
    assert lab.codes() == ["PZ0208"]


def test_an_output_has_one_writer(lab):
    lab.write(
        {
            "v": "INSERT INTO {{ sink('lake','a') }} select 2 as x",
            "u": "INSERT INTO [{{ sink('yard','a') }}, {{ sink('lake','a') }}] select 1 as x",
        }
    )
    (error,) = lab.errors()
    assert (error.code, error.where.file) == ("PZ0206", "pipelines/u.sql")
    assert "lake.a" in error.message and "u, v" in error.message


def test_unknown_connections_are_named_with_a_stub(lab):
    lab.write({"t": "INSERT INTO {{ sink('lakee','a') }} select 1 as x"})
    (error,) = lab.errors()
    assert error.code == "PZ0201" and "'lakee'" in error.message
    assert "'lake'" in error.hint and "lakee: {connector:" in error.hint
    lab.write({"t": "select * from {{ source('nowhere','q') }}", "u": "select * from {{ ref('tt') }}"})
    assert lab.codes() == ["PZ0201", "PZ0201"]


def test_options_on_both_surfaces_are_refused_in_both_directions_at_once(lab):
    lab.write(
        {
            "t": "INSERT INTO {{ sink('lake','o', strategy: 'replace') }} select 1 as x",
            "u": "select * from {{ source('yard','c', partitions: 4) }}",
        },
        connections="yard:\n  connector: pg\n  entities:\n    c:\n      read:\n"
        "lake:\n  connector: pg\n  entities:\n    o: {write: {strategy: replace}}\n",
    )
    first, second = lab.errors()
    assert (first.code, second.code) == ("PZ0341", "PZ0341")
    assert "lake.o" in first.message and first.where.file == "pipelines/t.sql"
    assert "yard.c" in second.message and second.where.file == "pipelines/u.sql"


def test_a_side_in_yaml_and_the_other_at_the_call_go_together(lab):
    lab.write(
        {"t": "INSERT INTO {{ sink('lake','m', strategy: 'merge', keys: ['id']) }} select 1 as id"},
        connections="lake: {connector: pg, entities: {m: {read: {columns: {id: bigint}}}, bare: }}\n",
    )
    assert lab.graph().named("lake.m").keys == ("id",)


def test_calls_of_one_dataset_must_not_disagree(lab):
    read = "{{ source('yard','c', format: 'FMT') }}"
    text = "select * from $1 a join $2 b using (x) join {{ source('yard','c') }} c using (x)"
    lab.write({"t": text.replace("$1", read.replace("FMT", "csv")).replace("$2", read.replace("FMT", "json"))})
    (error,) = lab.errors()
    assert error.code == "PZ0341" and "different options" in error.message
    lab.write({"t": text.replace("$1", read.replace("FMT", "csv")).replace("$2", read.replace("FMT", "csv"))})
    assert lab.graph().named("src_yard__c").options == {"format": "csv"}


def test_a_consumer_and_its_ephemeral_must_not_disagree_either(lab):
    lab.write(
        {
            "e": "select * from {{ source('yard','c', format: 'csv') }}",
            "t": "select * from {{ ref('e') }} join {{ source('yard','c', format: 'json') }} using (x)",
        },
        configs={"e": "materialization: ephemeral\n"},
    )
    assert lab.codes() == ["PZ0341"]


def test_defaults_of_a_write_without_options(lab):
    node = lab.write({"t": "INSERT INTO {{ sink('lake','o') }} select 1 as x"}).graph().named("lake.o")
    assert (node.strategy, node.keys, node.schema_policy, node.duplicates) == ("append", (), "fail_on_change", None)


def test_keys_follow_from_the_strategy(lab):
    lab.write(
        {
            "t": "INSERT INTO {{ sink('lake','a', strategy: 'merge') }} select 1 as id",
            "u": "INSERT INTO {{ sink('lake','b', keys: ['id']) }} select 1 as id",
        }
    )
    first, second = lab.errors()
    assert (first.code, second.code) == ("PZ0209", "PZ0211")
    assert "lake.a" in first.message and "lake.b" in second.message and "append" in second.message


def test_a_second_statement_is_refused(lab):
    lab.write(
        {
            "a": "select ';' as x, $$;$$ as y, \"a;b\" -- ;\nfrom t /* ; */;\n",
            "b": "select 1 as x\n; drop table t",
            "c": "select 1;;",
            "d": "-- only a comment;\n",
        },
    )
    errors = list(lab.errors())
    assert [(e.code, e.where.file) for e in errors] == [
        ("PZ0401", "pipelines/b.sql"),
        ("PZ0401", "pipelines/c.sql"),
        ("PZ0401", "pipelines/d.sql"),
    ]
    assert errors[0].where.line == 2

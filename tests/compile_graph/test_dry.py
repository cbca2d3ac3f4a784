from __future__ import annotations

import pytest

from pz_core.compile.dry import dry_compile
from pz_core.compile.select import select
from pz_core.errors import PzErrors

PLACES = (
    "shop: {connector: pg, entities: {orders: {read: {columns: {id: bigint, amt: 'decimal(9,2)', ts: timestamp, "
    "d: date, tz: timestamptz, n: decimal, i: int, j: json, u: uuid, b: blob, t: time}}}}}\nmart: {connector: pg}\n"
)
F, W = "{{ source('shop','orders') }}", "{{ watermark('shop','orders') }}"


def refusals(lab, **kwargs):
    with pytest.raises(PzErrors) as caught:
        dry_compile(lab.graph(), **kwargs)
    return list(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        f"select id, ts from {F} where ts > {W}",
        f"select id, ts from {F} where ts >= {W} - interval 2 hour",
        f"select id, ts from {F} where ts >= date_trunc('day', {W})",
        f"select id, ts from {F} where ts > coalesce({W}, TIMESTAMP '2026-01-01') "
        f"and ts <= least(coalesce({W}, TIMESTAMP '2026-01-01') + interval 7 day, TIMESTAMP '2026-06-01')",
        f"select id, d from {F} where d >= {W} - interval 3 day",
        f"select id, n from {F} where n > {W} + 5",
        f"select id from {F} where id > {W} - 100",
        f"select id from {F} where tz > {W} - interval 1 day",
        f"select id from {F} where amt > {W} - 1",
        f"from {F} -- a comment at the end",
        f"table {F}",
        f"with recursive r(i) as (select 1 union all select i + 1 from r where i < 3) select id from {F}, r",
        f"pivot {F} on i in (1, 2) using sum(id)",
        "values (1, 'a')",
        "select 1 as x, 2 as x",
        "select 1 // 0 as x, 'a'::int as y",
    ],
)
def test_queries_that_bind(lab, sql):
    lab.write(
        {"o": f"INSERT INTO {{{{ sink('mart','o', strategy: 'merge', keys: ['id']) }}}} {sql}"}, connections=PLACES
    )
    report = dry_compile(lab.graph())
    assert (report.bound, report.skipped, report.undeclared) == (1, (), ())


def test_a_wrong_column_names_file_line_and_column_without_an_echo(lab):
    lab.write(
        {
            "stg": f"select id, amt\nfrom {F}",
            "far": "-- far\nINSERT INTO {{ sink('mart','far') }}\n\nselect id,\n  distance\nfrom {{ ref('stg') }}",
            "below": "from {{ ref('far') }}",
            "view": "select nope from {{ ref('stg') }}",
        },
        connections=PLACES,
        configs={"view": "materialization: view\n"},
    )
    far, view = refusals(lab)
    assert (far.code, str(far.where)) == ("PZ0401", "pipelines/far.sql:5")
    assert '"distance"' in far.message and "LINE" not in far.message and "\n" not in far.message
    assert (view.code, str(view.where)) == ("PZ0401", "pipelines/view.sql:1")


def test_what_reads_no_contract_is_skipped_and_named(lab):
    lab.write(
        {
            "o": "select id, amount from {{ source('shop','items') }}",
            "below": "from {{ ref('o') }}",
            "other": f"select id from {F}",
        },
        connections=PLACES,
    )
    report = dry_compile(lab.graph())
    assert (report.bound, report.skipped, report.undeclared) == (1, ("o", "below"), ("shop.items",))


def test_what_reads_no_contract_must_still_parse_and_be_a_query(lab):
    read = "{{ source('shop','items') }}"
    lab.write({"a": f"selec id from {read}", "b": f"delete from {read.replace('items', 'more')}"})
    lab.write({}, connections=PLACES)
    a, b = refusals(lab)
    assert a.where.file == "pipelines/a.sql" and a.where.line == 1 and "selec" in a.message
    assert b.where.file == "pipelines/b.sql" and "DELETE" in b.message


@pytest.mark.parametrize(
    "sql",
    [
        "create table x as select 1",
        "with a as (select 1) insert into q select 1",
        "copy (select 1) to 'x.csv'",
        "attach 'x.duckdb'",
        "set threads = 1",
        "pragma version",
        "describe select 1",
    ],
)
def test_what_is_no_query_is_refused_and_not_run(lab, sql, monkeypatch):
    monkeypatch.chdir(lab.root)
    lab.write({"o": sql})
    (error,) = refusals(lab)
    assert (error.code, error.where.file) == ("PZ0401", "pipelines/o.sql")
    assert not list(lab.root.glob("x.*"))


def test_what_needs_a_file_or_an_extension_is_skipped_not_judged(lab):
    (lab.root / "x.csv").write_text("id\n1\n")
    lab.write(
        {
            "a": f"select * from read_csv('{lab.root}/x.csv')",
            "b": "select st_point(1, 2) as p",
            "c": "from 'x.parquet'",
            "d": "from {{ ref('a') }}",
        }
    )
    report = dry_compile(lab.graph())
    assert (report.bound, set(report.skipped)) == (0, {"a", "b", "c", "d"})


def test_columns_that_a_pivot_takes_from_the_data_are_not_judged(lab):
    lab.write(
        {"p": f"pivot (select i, id from {F}) on i using sum(id)", "q": "select \"7\" from {{ ref('p') }}"},
        connections=PLACES,
    )
    report = dry_compile(lab.graph())
    assert (report.bound, report.skipped) == (0, ("p", "q"))


def test_only_looks_at_what_is_asked_and_what_lies_above(lab):
    lab.write({"a": "select 1 as x", "b": "select y from {{ ref('a') }}", "c": "select nope as x"})
    graph = lab.graph()
    assert dry_compile(graph, only=select(graph, expression="a")).bound == 1
    assert [e.where.file for e in refusals(lab, only=select(graph, expression="b"))] == ["pipelines/b.sql"]
    assert len(refusals(lab)) == 2
    assert dry_compile(graph, only=frozenset()).bound == 0


def test_reserved_and_odd_names_bind(lab):
    lab.write(
        {"order": 'select "select", "a""b" from {{ source(\'shop\',\'group\') }}', "t": "from {{ ref('order') }}"},
        connections="shop: {connector: pg, entities: {group: {read: {columns: {select: int, 'a\"b': varchar}}}}}\n",
    )
    assert dry_compile(lab.graph()).bound == 2


def test_time_zone_is_utc_and_python_objects_are_out_of_sight(lab):
    frame = {"id": [1]}
    assert frame
    lab.write({"o": "select * from frame"})
    assert [e.code for e in refusals(lab)] == ["PZ0401"]


def test_a_view_cannot_take_its_columns_from_the_data(lab):
    lab.write(
        {"p": f"pivot (select i, id, d from {F}) on i using sum(id)"},
        connections=PLACES,
        configs={"p": "materialization: view\n"},
    )
    assert [e.code for e in refusals(lab)] == ["PZ0401"]

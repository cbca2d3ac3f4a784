"""Rows pass straight from a source into a sink where nothing else needs them, and are staged where something does."""

from __future__ import annotations

import json
from typing import Any

import pytest

# --- what passes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "select",
    [
        "select * from @",
        "from @",
        "select *, n * 2 as n2, upper(label) as l, cast(n as varchar) t, label like 'a%' as a from @",
        "select *, case when n > 10 then 'big' else 'small' end as size from @ as r",
        "select *, coalesce(label, 'none') as l, [id, n] as both, {'a': id} as s, n between 1 and 2 as b from @",
        "select id, n * 2 as n2, label || '!' as l from @",
        "select r.id, src_files__rows.n::varchar as n, label from @ r".replace("src_files__rows.n", "r.n"),
        "select LABEL, -n as n, 1 + id as next, typeof(n) as t from @",
    ],
)
def test_a_select_list_over_one_dataset_passes(lab: Any, select: str) -> None:
    lab.pipeline(select)
    assert lab.passes()
    lab.pz("run")
    passed = lab.made()
    assert lab.nodes()["SourceLoad"]["accounting"] == {"read": 3, "staged": 0, "passed": 3, "rejected": 0}
    assert lab.nodes()["SinkWrite"]["rows"] == 3
    assert lab.staged() == []
    lab.pipeline(select, materialization="table")
    assert not lab.passes()
    lab.pz("run")
    assert lab.made() == passed
    assert lab.nodes()["SourceLoad"]["accounting"] == {"read": 3, "staged": 3, "rejected": 0}


@pytest.mark.parametrize(
    "select",
    [
        "select * from @ where n > 10",
        "select distinct label from @",
        "select sum(n) as n from @",
        "select label, count(*) as rows from @ group by label",
        "select id, row_number() over (order by id) as r from @",
        "select unnest([id, n]) as v from @",
        "select unnest([[id], [n]], recursive := true) as v from @",
        "select id, (select 1) as one from @",
        "select id from @ limit 2",
        "select id from @ order by id",
        "select id from @ using sample 2",
        "select id from @ qualify row_number() over () = 1",
        "select a.id from @ a, range(2)",
        "select a.id from (from @) a",
        "with q as (select 1) select id from @",
        "select id from @ union all select 1",
        "select geomean(n) as g from @",
        "select 1 as one",
    ],
)
def test_what_may_make_more_or_fewer_rows_does_not_pass(lab: Any, select: str) -> None:
    lab.pipeline(select)
    assert not lab.passes()


def test_what_something_else_needs_does_not_pass(lab: Any) -> None:
    lab.pipeline("select id, n from @", more="checks:\n  - not_null: [id]\n")
    assert not lab.passes()
    lab.pipeline("select id, n from @")
    assert lab.passes()
    lab.write("pipelines/q.sql", "select id from {{ ref('p') }}\n")
    assert not lab.passes()
    lab.write("pipelines/q.sql", "select id from staging.src_files__rows\n")
    assert not lab.passes()
    lab.write("pipelines/q.sql", "select * from query_table('src_' || 'files__rows')\n")
    assert not lab.passes()
    lab.write("pipelines/q.sql", "select 1 as one\n")
    assert lab.passes()
    (lab.root / "pipelines/q.sql").unlink()
    two = "INSERT INTO [{{ sink('lake', 'made', format: 'csv') }}, {{ sink('lake', 'more', format: 'csv') }}]\n"
    lab.pipeline("select id, n from @", sink=two)
    assert not lab.passes()


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ("", True),
        ("engine: {force_universal: true}\n", False),
        ("engine: {node_timeout: 1h}\n", False),
        ("engine: {breaker: {failure_threshold: 3, cool_down: 10s}}\n", False),
        ("on_source_drift: warn\n", False),
    ],
)
def test_what_is_kept_for_each_node_by_itself_does_not_pass(lab: Any, settings: str, passes: bool) -> None:
    lab.pipeline("select * from @")
    lab.write("project.yml", f"name: through\nversion: 1.0.0\n{settings}")
    assert lab.passes() is passes


@pytest.mark.parametrize(
    ("sink", "passes"),
    [
        ("sink('lake', 'made', strategy: 'append', format: 'csv')", True),
        ("sink('mart', 'made', strategy: 'replace')", False),
        ("sink('mart', 'made', strategy: 'merge', keys: ['id'])", False),
    ],
)
def test_a_load_that_asks_for_its_rows_more_than_once_holds_them(lab: Any, sink: str, passes: bool) -> None:
    lab.pipeline("select * from @", sink=f"INSERT INTO {{{{ {sink} }}}}\n")
    assert lab.passes() is passes


@pytest.mark.parametrize(
    ("select", "passes"),
    [
        ("select * from @", True),
        ("select label, n + 1 as n, id from @", True),
        ("select label, n + id as sum from @", False),
        ("select id, label, n + null as n from @", False),
        ("select id, label, n * 0 as n from @", False),
        ("select id, label, n || null as n from @", False),
        ("select cast(id as varchar) as id, n, label from @", True),
        ("select id, n from @", False),
        ("select * exclude (n) from @", False),
        ("select id, n, case when n > 10 then label end as label from @", False),
    ],
)
def test_a_contract_holds_for_columns_that_nobody_asks_for(lab: Any, select: str, passes: bool) -> None:
    lab.pipeline(select)
    lab.contract()
    assert lab.passes() is passes
    lab.write("in/rows.csv", "id,n,label\n1,10,a\n2,x,b\n")
    assert "PZ0812" in lab.pz("run", code=1)


@pytest.mark.parametrize(
    "select",
    [
        "select id from @",
        "select 1 as one from @",
        "select * exclude (n) from @",
        "select columns('i.*') from @",
        "select id, label, typeof(n) as t from @",
        "select id, label, case when false then n end as n from @",
    ],
)
def test_a_file_of_which_something_is_left_out_is_looked_at_as_a_whole(lab: Any, select: str) -> None:
    lab.pipeline(select)
    lab.pz("run")
    assert lab.nodes()["SourceLoad"]["accounting"] == {"read": 3, "staged": 3, "rejected": 0}
    lines = "".join(f"{i},{i},x\n" for i in range(5000)).encode()
    (lab.root / "in/rows.csv").write_bytes(b"id,n,label\n" + lines + b"7,7,\xff\xfe\n8,8,x\n")
    assert "PZ0501" in lab.pz("run", code=1)


@pytest.mark.parametrize(
    "name", ["current_catalog", "current_database()", "current_schema", "current_setting('threads')"]
)
def test_what_asks_duckdb_where_it_is_does_not_pass(lab: Any, name: str) -> None:
    lab.pipeline(f"select *, {name} as place from @")
    assert not lab.passes()


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_value_that_does_not_fit_is_told_by_its_source_and_leaves_the_target(lab: Any) -> None:
    lab.pipeline("select * from @")
    lab.pz("run")
    before = lab.made()
    lab.contract()
    lines = "".join(f"{i},{i},x\n" for i in range(50_000))
    lab.write("in/rows.csv", f"id,n,label\n{lines}7,no,y\n")
    assert lab.passes()
    said = lab.pz("run", code=1)
    assert "PZ0812" in said and "src_files__rows" in said
    statuses = {kind: node["status"] for kind, node in lab.nodes().items()}
    assert statuses == {"SourceLoad": "failed", "Pipeline": "skipped", "SinkWrite": "skipped"}
    assert lab.made() == before
    assert [p.name for p in (lab.root / "out/made").iterdir()] == ["made.parquet"]


def test_a_type_that_only_the_whole_file_shows_is_found_by_staging(lab: Any) -> None:
    lines = "".join(f"{i},{i},x\n" for i in range(50_000))
    lab.write("in/rows.csv", f"id,n,label\n{lines}7,1.5,y\n")
    lab.pipeline("select * from @")
    assert lab.passes()
    lab.pz("run")
    assert lab.made("select count(*), max(n)::varchar from made where label = 'y'") == [(1, "1.5")]
    account = lab.nodes()["SourceLoad"]["accounting"]
    assert account == {"read": 50_001, "staged": 50_001, "rejected": 0}


def test_rows_are_staged_for_a_sink_that_fails_and_a_retry_reads_nothing(lab: Any) -> None:
    lab.write("jam", "not a directory")
    lab.pipeline(
        "select * from @", sink="INSERT INTO {{ sink('jammed', 'made', strategy: 'replace', format: 'csv') }}\n"
    )
    assert lab.passes()
    lab.pz("run", code=1)
    found = lab.nodes()
    assert {kind: node["status"] for kind, node in found.items()} == {
        "SourceLoad": "success",
        "Pipeline": "success",
        "SinkWrite": "failed",
    }
    assert found["SourceLoad"]["accounting"] == {"read": 3, "staged": 3, "rejected": 0}
    assert lab.staged() == ["p", "src_files__rows"]
    (lab.root / "jam").unlink()
    (lab.root / "in/rows.csv").unlink()
    lab.pz("retry")
    assert (lab.root / "jam/made/made.csv").read_text().splitlines()[1:] == ["1,10,a", "2,20,b", "3,30,c"]


def test_a_source_that_is_not_there_fails_as_ever(lab: Any) -> None:
    lab.pipeline("select * from @")
    (lab.root / "in/rows.csv").unlink()
    lab.pz("run", code=1)
    found = lab.nodes()
    assert found["SourceLoad"]["status"] == "failed" and found["SinkWrite"]["status"] == "skipped"
    assert found["SourceLoad"]["error"]["code"] == "PZ0501"


def test_a_file_can_be_read_and_replaced_in_one_run(lab: Any) -> None:
    lab.pipeline("select * from @")
    lab.pz("run")
    lab.write(
        "pipelines/p.sql",
        "INSERT INTO {{ sink('lake', 'made', strategy: 'replace', format: 'parquet') }}\nselect id + 1 as id, n, label "
        "from {{ source('lake', 'made', path: 'made/made.parquet', format: 'parquet') }}\n",
    )
    assert not lab.passes()
    lab.pz("run")
    assert lab.made("select id from made") == [(2,), (3,), (4,)]


def test_a_run_without_the_sink_stages(lab: Any) -> None:
    lab.pipeline("select * from @")
    lab.pz("run", "--select", "p")
    assert lab.staged() == ["p", "src_files__rows"]


def test_the_last_line_tells_of_rows_that_passed(lab: Any) -> None:
    lab.pipeline("select * from @")
    assert "rows: read 3, staged 0, passed 3, written 3, rejected 0" in lab.pz("run")


def test_a_sink_that_has_its_rows_is_told_so_whatever_stops_the_run(lab: Any) -> None:
    lab.write("project.yml", "name: through\nversion: 1.0.0\nengine: {threads: 1}\n")
    connections = (lab.root / "connections.yml").read_text()
    bad = "zbad: {read: {format: csv, columns: {id: int}}}"
    lab.write("connections.yml", connections.replace("entities: {", f"entities: {{{bad}, "))
    lab.write("in/zbad.csv", "id\nx\n")
    lab.pipeline("select * from @", sink="INSERT INTO {{ sink('lake', 'made', strategy: 'append', format: 'csv') }}\n")
    lab.write(
        "pipelines/q.sql",
        "INSERT INTO {{ sink('lake', 'q', format: 'csv') }}\nselect id from {{ source('files', 'zbad') }}\n",
    )
    lab.pz("run", "--all", "--fail-fast", code=1)
    made = list((lab.root / "out/made").iterdir())
    found = json.loads((lab.runs()[-1] / "run_results.json").read_text())["nodes"]
    assert {node["name"]: node["status"] for node in found}["lake.made"] == "success" and len(made) == 1
    assert [node["name"] for node in found][:3] == ["src_files__rows", "p", "lake.made"]
    lab.write("in/zbad.csv", "id\n1\n")
    said = lab.pz("retry")
    assert list((lab.root / "out/made").iterdir()) == made
    assert "reused" not in said.replace("0 reads are reused", "")

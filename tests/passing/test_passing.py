"""Rows pass straight from a source into a sink where nothing else needs them, and are staged where something does."""

from __future__ import annotations

from typing import Any

import pytest

# --- what passes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "select",
    [
        "select * from @",
        "from @",
        "select id, n * 2 as n2, upper(label) as l, cast(n as varchar) t, label like 'a%' as a from @",
        "select * exclude (n), case when n > 10 then 'big' else 'small' end as size from @ as r",
        "select coalesce(label, 'none') as label, [id, n] as both, {'a': id} as s, n between 1 and 2 as b from @",
        "select columns('i.*') from @",
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
        ("select label, n + id as sum from @", True),
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
    assert lab.passes()
    lab.pz("run")
    assert lab.made("select id from made") == [(2,), (3,), (4,)]


def test_a_run_without_the_sink_stages(lab: Any) -> None:
    lab.pipeline("select * from @")
    lab.pz("run", "--select", "p")
    assert lab.staged() == ["p", "src_files__rows"]


def test_the_last_line_tells_of_rows_that_passed(lab: Any) -> None:
    lab.pipeline("select * from @")
    assert "rows: read 3, staged 0, passed 3, written 3, rejected 0" in lab.pz("run")

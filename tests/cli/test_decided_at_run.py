"""What depends on types that nobody declared: the plan has the rule, the run's results the choice."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

RAW = "raw: {connector: localfiles, root: in, entities: {rows: {read: {format: csv%s}}}}\n"
CONTRACT = RAW % ", columns: {id: bigint, day: date, note: varchar}"
OPEN = RAW % ""
SINK = "INSERT INTO {{ sink('lake', 'rows', strategy: 'replace', format: 'csv') }}\n"


def project(root: Path, connections: str, sql: str, extra: str = "") -> None:
    (root / "in").mkdir()
    (root / "pipelines").mkdir()
    (root / "in/rows.csv").write_text("id,day,note\n1,2026-01-01,x\n2,2026-01-02,y\n")
    (root / "project.yml").write_text(f"name: lab\nversion: 1.0.0\n{extra}")
    (root / "connections.yml").write_text(connections + "lake: {connector: localfiles, root: out}\n")
    (root / "pipelines/p.sql").write_text(SINK + sql)


def planned(pz) -> dict[str, str]:
    said = pz("plan", "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    return next(n for n in document["nodes"] if n["kind"] == "SourceLoad").get("decidedAtRun", {})


def chosen(pz, root: Path) -> dict[str, str]:
    assert pz("run").code == 0
    (path,) = (root / ".pz/runs").glob("*/run_results.json")
    nodes = json.loads(path.read_text())["nodes"]
    return next(n for n in nodes if n["kind"] == "SourceLoad").get("choices", {})


@pytest.mark.parametrize("extra", ["", "engine: {force_universal: true}\n"])
def test_types_that_nobody_declared_have_a_rule_in_the_plan_and_a_choice_in_the_results(pz, tmp_path, extra):
    project(tmp_path, OPEN, "select * from {{ source('raw', 'rows') }}\n", extra)
    assert set(planned(pz)) == {"types"}
    assert "decided at run: src_raw__rows types: " in pz("plan").out
    assert chosen(pz, tmp_path) == {"types": "id BIGINT, day DATE, note VARCHAR"}


def test_with_a_contract_nothing_of_a_plain_read_is_left_to_the_run(pz, tmp_path):
    project(tmp_path, CONTRACT, "select * from {{ source('raw', 'rows') }}\n")
    assert planned(pz) == {}
    assert "decided at run" not in pz("plan").out
    assert chosen(pz, tmp_path) == {}


@pytest.mark.parametrize(("value", "choice"), [("2", "1 columns, filter"), ("'2'", "1 columns, no filter")])
def test_a_pushed_filter_goes_along_only_where_the_types_that_are_there_fit(pz, tmp_path, value, choice):
    sql = f"select id from {{{{ source('db', 'rows') }}}} where id < {value}\n"
    project(tmp_path, OPEN + "db: {connector: duckdb, path: in.duckdb}\n", sql)
    with duckdb.connect(str(tmp_path / "in.duckdb")) as con:
        con.execute("CREATE TABLE rows AS SELECT 1 AS id, 'x' AS note")
    assert set(planned(pz)) == {"types", "pushdown"}
    assert chosen(pz, tmp_path)["pushdown"] == choice


def test_the_type_of_a_cursor_without_a_contract_is_the_one_it_lands_with(pz, tmp_path):
    sql = "select * from {{ source('raw', 'rows') }} where day > {{ watermark('raw', 'rows') }}\n"
    project(tmp_path, OPEN, sql)
    appended = SINK.replace("'replace'", "'append', duplicates: 'accept'")
    (tmp_path / "pipelines/p.sql").write_text(appended + sql)
    assert "cursor" in planned(pz)
    assert chosen(pz, tmp_path)["cursor"] == "date"


def test_no_choice_holds_a_value_of_the_data_or_of_the_sql(pz, tmp_path):
    project(
        tmp_path,
        OPEN + "db: {connector: duckdb, path: in.duckdb}\n",
        "select id from {{ source('db', 'rows') }} where note = 'hunter2'\n",
    )
    with duckdb.connect(str(tmp_path / "in.duckdb")) as con:
        con.execute("CREATE TABLE rows AS SELECT 1 AS id, 'hunter2' AS note")
    assert "hunter2" not in json.dumps([planned(pz), chosen(pz, tmp_path)])

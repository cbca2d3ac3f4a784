"""Rows that pass straight from a source into a sink, where one of the two is a database: what runs make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.testkit.project import ProjectTester

VIEW = "pipeline: p\nmaterialization: view\n"


def project(folder: Path, address: Any, sink: str, source: str, **files: str) -> ProjectTester:
    made = ProjectTester(folder)
    made.write(
        {
            "connections.yml": {
                "pg": {"connector": "postgres", **address.options()},
                "files": {"connector": "localfiles", "root": "in"},
                "lake": {"connector": "localfiles", "root": "out"},
            },
            "pipelines/p.sql": f"INSERT INTO {{{{ {sink} }}}}\nSELECT * FROM {{{{ {source} }}}}\n",
            "pipelines/configs/p.yml": VIEW,
            **files,
        }
    )
    return made


def passes(made: ProjectTester) -> bool:
    return any("passesInto" in node for node in json.loads(made.run("plan", "--json").out)["nodes"])


def accounts(made: ProjectTester) -> dict[str, Any]:
    return {node["kind"]: node.get("accounting") for node in made.results()["nodes"]}


def test_a_table_passes_into_a_file(tmp_path: Path, pg18: Any) -> None:
    pg18.run("CREATE TABLE bill AS SELECT i AS id, i / 4.0 AS amount, now() AS at FROM generate_series(1, 5000) i")
    made = project(tmp_path, pg18, "sink('lake', 'bill', format: 'parquet')", "source('pg', 'bill')")
    assert passes(made)
    assert made.run("run").code == 0
    assert accounts(made)["SourceLoad"] == {"read": 5000, "staged": 0, "passed": 5000, "rejected": 0}
    found = duckdb.execute(f"SELECT count(*), sum(id) FROM '{tmp_path}/out/bill/*.parquet'").fetchall()
    assert found == [(5000, 12502500)]
    assert pg18.run("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") == [(1,)]


@pytest.mark.parametrize("strategy", ["append", "replace"])
def test_a_file_passes_into_a_table(tmp_path: Path, pg18: Any, strategy: str) -> None:
    rows = "id,name\n" + "".join(f"{i},n{i}\n" for i in range(5000))
    sink = f"sink('pg', 'public.people', strategy: '{strategy}')"
    made = project(tmp_path, pg18, sink, "source('files', 'people', format: 'csv')", **{"in/people.csv": rows})
    assert passes(made)
    for _ in range(2):
        assert made.run("run").code == 0
    times = 2 if strategy == "append" else 1
    assert pg18.run("SELECT count(*), sum(id) FROM people") == [(5000 * times, 12497500 * times)]
    assert accounts(made)["SinkWrite"] == {"staged": 5000, "written": 5000, "rejected": 0}


def test_a_table_is_not_passed_into_one_whose_writer_could_wait_for_its_reader(tmp_path: Path, pg18: Any) -> None:
    pg18.run("CREATE TABLE board AS SELECT i AS id FROM generate_series(1, 50) i")
    made = project(tmp_path, pg18, "sink('pg', 'public.board', strategy: 'replace')", "source('pg', 'public.board')")
    assert not passes(made)
    assert made.run("run").code == 0
    assert pg18.run("SELECT count(*), sum(id) FROM board") == [(50, 1275)]


def test_a_value_that_the_target_cannot_hold_is_told_with_its_row_and_the_rows_are_staged(
    tmp_path: Path, pg18: Any
) -> None:
    (tmp_path / "in").mkdir()
    duckdb.execute(
        "COPY (SELECT i, CASE WHEN i = 4321 THEN 'a' || chr(0) ELSE 'b' END AS s FROM range(5000) r(i)) "
        f"TO '{tmp_path}/in/people.parquet'"
    )
    sink = "sink('pg', 'public.people')"
    made = project(tmp_path, pg18, sink, "source('files', 'people', format: 'parquet')")
    assert passes(made)
    said = made.run("run")
    assert said.code == 1 and "PZ0812" in said.err and "in row 4322" in said.err
    statuses = {node["kind"]: node["status"] for node in made.results()["nodes"]}
    assert statuses == {"SourceLoad": "success", "Pipeline": "success", "SinkWrite": "failed"}
    assert accounts(made)["SourceLoad"] == {"read": 5000, "staged": 5000, "rejected": 0}
    assert pg18.run("SELECT to_regclass('people')") == [(None,)]


def test_a_row_that_the_server_refuses_fails_the_sink_alone(tmp_path: Path, pg18: Any) -> None:
    pg18.run("CREATE TABLE people (id bigint PRIMARY KEY, name text)")
    rows = "id,name\n1,a\n2,b\n1,c\n"
    sink = "sink('pg', 'public.people')"
    made = project(tmp_path, pg18, sink, "source('files', 'people', format: 'csv')", **{"in/people.csv": rows})
    said = made.run("run")
    assert said.code == 1 and "unique" in said.err
    statuses = {node["kind"]: node["status"] for node in made.results()["nodes"]}
    assert statuses == {"SourceLoad": "success", "Pipeline": "success", "SinkWrite": "failed"}
    assert pg18.run("SELECT count(*) FROM people") == [(0,)]
    pg18.run("ALTER TABLE people DROP CONSTRAINT people_pkey")
    (tmp_path / "in" / "people.csv").unlink()
    assert made.run("retry").code == 0
    assert pg18.run("SELECT count(*) FROM people") == [(3,)]

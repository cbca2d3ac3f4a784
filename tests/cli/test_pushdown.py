"""What is pushed to a source, from the plan to what lands, on both tiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

PIPELINE = """INSERT INTO {{ sink('lake', 'big', strategy: 'replace', format: 'csv') }}
select o.id, c.name
from {{ source('db', 'orders') }} as o
left join {{ source('db', 'customers') }} as c on c.ID = o.customer and c.name <> 'b'
where o.amount > 10 and c.name is not null
order by 1
"""
FILES = {
    "project.yml": "name: p\nversion: 0.1.0\nengine: {force_universal: %s, duckdb: {threads: 1}}\n",
    "connections.yml": "db: {connector: duckdb, path: in.duckdb}\nlake: {connector: localfiles, root: out}\n",
    "pipelines/big.sql": PIPELINE,
}


@pytest.mark.parametrize("universal", [False, True])
def test_a_source_lands_only_what_its_reader_asks_for(pz: Any, tmp_path: Path, universal: bool) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("%s", str(universal).lower()))
    with duckdb.connect(str(tmp_path / "in.duckdb")) as con:
        con.execute(
            "CREATE TABLE orders AS SELECT i AS id, i % 3 AS customer, i * 2 AS amount, 'x' AS pad FROM range(9) t(i)"
        )
        con.execute("CREATE TABLE customers AS FROM (VALUES (0, 'a', 1), (1, 'b', 2)) v(id, name, unused)")
    plan = pz("plan")
    assert "[pushed: 3 columns + filter]" in plan.out and "[pushed: 2 columns]" in plan.out
    assert pz("run").code == 0
    assert (tmp_path / "out" / "big" / "big.csv").read_text().split() == ["id,name", "6,a"]
    [staging] = tmp_path.glob(".pz/runs/*/staging.duckdb")
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{staging}' AS s (READ_ONLY)")
        landed = con.execute("DESCRIBE s.staging.src_db__orders").fetchall()
        assert [row[0] for row in landed] == ["id", "customer", "amount"]
        assert con.execute("SELECT min(amount), count(*) FROM s.staging.src_db__orders").fetchall() == [(12, 3)]
        assert [row[0] for row in con.execute("DESCRIBE s.staging.src_db__customers").fetchall()] == ["id", "name"]


def test_a_misspelt_column_is_told_by_the_pipeline(pz: Any, tmp_path: Path) -> None:
    files = {
        **FILES,
        "pipelines/big.sql": "INSERT INTO {{ sink('lake', 'big') }}\n"
        "select idd from {{ source('db', 't') }} where idd > 1",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("%s", "false"))
    with duckdb.connect(str(tmp_path / "in.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS id")
    said = pz("run")
    assert said.code == 1
    assert '"idd" not found' in said.err and "(big)" in said.err

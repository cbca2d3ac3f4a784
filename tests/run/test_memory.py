"""Memory stays within what `pz plan` prints, for data several times as large."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROWS = 1_200_000
PZ = Path(sys.executable).with_name("pz")
#: Runs a command in a process of its own, which is small: the kernel counts a child's peak from before its exec.
WATCH = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


@pytest.mark.slow
@pytest.mark.parametrize("universal", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_run_over_data_larger_than_its_memory_limit_keeps_within_the_plans_budget(tmp_path: Path, universal: bool):
    (tmp_path / "in").mkdir()
    (tmp_path / "pipelines").mkdir()
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT i AS id, md5(i::varchar) AS a, md5((i + 1)::varchar) AS b, md5((i + 2)::varchar) AS c "
            f"FROM range({ROWS}) t(i)) TO '{tmp_path}/in/rows.parquet' (FORMAT parquet)"
        )
    (tmp_path / "project.yml").write_text(
        "name: lab\nversion: 1.0.0\nengine:\n"
        f"  force_universal: {str(universal).lower()}\n  duckdb: {{memory_limit: 100MB, threads: 2}}\n"
    )
    (tmp_path / "connections.yml").write_text(
        "raw: {connector: localfiles, root: in}\nlake: {connector: localfiles, root: out}\n"
    )
    (tmp_path / "pipelines/p.sql").write_text(
        "INSERT INTO {{ sink('lake', 'rows', strategy: 'replace', format: 'parquet') }}\n"
        "select * from {{ source('raw', 'rows', format: 'parquet') }}\n"
    )
    plan = subprocess.run([PZ, "plan", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    budget = json.loads(plan.stdout)["memoryBudget"]
    assert budget["duckdbBytes"] == 100_000_000
    ran = subprocess.run(
        [sys.executable, "-c", WATCH, str(PZ), "run"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    code, peak_kib = map(int, ran.stdout.split())
    assert code == 0, ran.stderr
    allowed = budget["totalBytes"] if universal else budget["totalBytes"] - budget["channelBytes"]
    assert peak_kib * 1024 <= allowed
    with duckdb.connect() as con:
        assert con.execute(f"SELECT count(*) FROM '{tmp_path}/out/rows/rows.parquet'").fetchall() == [(ROWS,)]

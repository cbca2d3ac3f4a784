"""Time pz against DuckDB doing the same by itself, pairwise and as whole processes.

Usage: run.py [--rows N ...] [--runs N] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import lock_check
from whole import PYTHON, PZ, ROWS, Reading, keep, machine, result, timed, write

HERE = Path(__file__).resolve().parent


def in_duckdb(*statements: str) -> list[list[object]]:
    """Answers of some statements, asked in a process of their own.

    The kernel counts the memory of a process from before it became another program, so this one must stay small.
    """
    program = (
        "import duckdb, json, sys\n"
        "con = duckdb.connect()\n"
        "con.execute('set enable_progress_bar = false')\n"
        "made = [con.execute(s).fetchall() for s in json.load(sys.stdin)]\n"
        "json.dump([[list(map(str, row)) for row in rows] for rows in made], sys.stdout)"
    )
    done = subprocess.run(
        [PYTHON, "-c", program], input=json.dumps(statements), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


CONNECTIONS = """
raw: {connector: localfiles, root: in}
lake: {connector: localfiles, root: out}
mart: {connector: duckdb, path: mart.duckdb}
"""


@dataclass(frozen=True)
class Pair:
    """What pz runs in a project and what DuckDB runs by itself for the same result."""

    name: str
    pipeline: str
    sidecar: str
    raw: str
    same: tuple[str, str]


PAIRS = (
    Pair(
        "csv_to_parquet_table",
        "INSERT INTO {{ sink('lake', 'rows', strategy: 'replace', format: 'parquet') }}\n"
        "select id, n * 2 as n2, label, amount, ts from {{ source('raw', 'rows', format: 'csv') }}\n",
        "",
        "copy (select id, n * 2 as n2, label, amount, ts from read_csv('in/rows.csv')) to 'raw.parquet' (format parquet)",
        (
            "select count(*), sum(id), sum(n2) from 'out/rows/rows.parquet'",
            "select count(*), sum(id), sum(n2) from 'raw.parquet'",
        ),
    ),
    Pair(
        "csv_to_parquet_view",
        "INSERT INTO {{ sink('lake', 'rows', strategy: 'replace', format: 'parquet') }}\n"
        "select id, n * 2 as n2, label, amount, ts from {{ source('raw', 'rows', format: 'csv') }}\n",
        "pipeline: p\nmaterialization: view\n",
        "copy (select id, n * 2 as n2, label, amount, ts from read_csv('in/rows.csv')) to 'raw.parquet' (format parquet)",
        (
            "select count(*), sum(id), sum(n2) from 'out/rows/rows.parquet'",
            "select count(*), sum(id), sum(n2) from 'raw.parquet'",
        ),
    ),
    Pair(
        "parquet_aggregate",
        "INSERT INTO {{ sink('lake', 'sums', strategy: 'replace', format: 'parquet') }}\n"
        "select label, count(*) as rows, sum(amount) as amount, max(ts) as ts from {{ source('raw', 'rows', format: 'parquet') }} group by label\n",
        "",
        "copy (select label, count(*) as rows, sum(amount) as amount, max(ts) as ts from 'in/rows.parquet' group by label) to 'raw.parquet' (format parquet)",
        ("select count(*), sum(rows) from 'out/sums/sums.parquet'", "select count(*), sum(rows) from 'raw.parquet'"),
    ),
    Pair(
        "csv_to_duckdb",
        "INSERT INTO {{ sink('mart', 'rows', strategy: 'replace') }}\n"
        "select * from {{ source('raw', 'rows', format: 'csv') }}\n",
        "",
        "attach 'raw.duckdb' as m; create or replace table m.rows as select * from read_csv('in/rows.csv')",
        ("select count(*), sum(id) from a.rows", "select count(*), sum(id) from b.rows"),
    ),
)


def prove_equal(root: Path, pair: Pair) -> None:
    """A figure counts only if both sides made the same rows."""
    before = [f"set file_search_path='{root}'"]
    if pair.name == "csv_to_duckdb":
        before += [f"attach '{root}/mart.duckdb' as a (read_only)", f"attach '{root}/raw.duckdb' as b (read_only)"]
    ours, theirs = in_duckdb(*before, *pair.same)[-2:]
    if ours != theirs:
        raise SystemExit(f"{pair.name}: pz made {ours}, DuckDB {theirs}")


def bench_pair(pair: Pair, source: Path, runs: int) -> dict[str, float]:
    root = Path(tempfile.mkdtemp(prefix="pz-bench-"))
    try:
        write(
            root,
            {
                "project.yml": "name: bench\nversion: 1.0.0\n",
                "connections.yml": CONNECTIONS,
                "pipelines/p.sql": pair.pipeline,
            },
        )
        if pair.sidecar:
            write(root, {"pipelines/configs/p.yml": pair.sidecar})
        (root / "in").symlink_to(source)
        raw = [PYTHON, "-c", f"import duckdb; duckdb.connect().execute({pair.raw!r})"]
        ours: list[Reading] = []
        theirs: list[Reading] = []
        for _ in range(runs):
            ours.append(timed([PZ, "run"], root))
            theirs.append(timed(raw, root))
        prove_equal(root, pair)
        return result(ours, theirs)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def many_pipelines(root: Path, count: int) -> None:
    write(root, {"project.yml": "name: many\nversion: 1.0.0\n", "connections.yml": CONNECTIONS})
    for i in range(count // 2):
        write(root, {
            f"pipelines/area{i % 20}/stg_{i}.sql": f"select id, n from {{{{ source('raw', 't{i}', format: 'csv') }}}} where n > {i}\n",
            f"pipelines/area{i % 20}/out_{i}.sql": f"INSERT INTO {{{{ sink('lake', 'o{i}', strategy: 'replace', format: 'parquet') }}}}\n"
            f"select id, sum(n) as n from {{{{ ref('stg_{i}') }}}} group by id\n",
        })  # fmt: skip


def bench_commands(runs: int) -> dict[str, dict[str, float]]:
    made: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="pz-bench-") as folder:
        for name, count, arguments, warm in (
            ("version", 0, ["--version"], False),
            ("ls_10", 10, ["ls"], False),
            ("ls_1000", 1000, ["ls"], False),
            ("compile_1000", 1000, ["compile"], False),
            ("compile_1000_warm", 1000, ["compile"], True),
            ("compile_3000", 3000, ["compile"], False),
            ("compile_3000_warm", 3000, ["compile"], True),
        ):
            root = Path(folder) / name
            root.mkdir()
            if count:
                many_pipelines(root, count)
            ours, theirs = [], []
            if warm:
                timed([PZ, *arguments], root)
            for _ in range(runs):
                if not warm:
                    shutil.rmtree(root / ".pz", ignore_errors=True)
                ours.append(timed([PZ, *arguments], root))
                theirs.append(timed([PYTHON, "-c", "pass"], root))
            made[name] = result(ours, theirs)
            print(f"{name:24} {made[name]}", flush=True)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    report = machine(args.runs)
    pairs: dict[str, dict[str, float]] = {}
    for rows in args.rows:
        with tempfile.TemporaryDirectory(prefix="pz-bench-in-") as folder:
            source = Path(folder)
            in_duckdb(
                f"create table t as {ROWS.format(rows=rows)}",
                f"copy t to '{source}/rows.csv' (header)",
                f"copy t to '{source}/rows.parquet' (format parquet)",
            )
            for pair in PAIRS:
                if args.only and pair.name not in args.only:
                    continue
                key = f"{pair.name}_{rows}"
                pairs[key] = bench_pair(pair, source, args.runs)
                print(f"{key:34} {pairs[key]}", flush=True)
    report["pairs"] = pairs
    if not args.only:
        report["commands"] = bench_commands(args.runs)
        report["lock_check"] = lock_check.measure(args.runs)
        print(f"{'lock_check':24} {report['lock_check']}", flush=True)
    keep(report, "latest.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Time pz against DuckDB and against other tools where a Postgres server and an S3 store take part.

Usage: places.py [--rows N ...] [--runs N] [--only NAME ...] [--peers FOLDER] [--patience SECONDS]

The servers are those of the tests, from packages that pip installs. ``--peers`` names a virtual environment with what
``requirements/peers.txt`` lists; without it only DuckDB is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whole import PYTHON, PZ, ROWS, Failed, Reading, keep, machine, median, result, timed, write

HERE = Path(__file__).resolve().parent
BUCKET = "bench"
COLUMNS = "id bigint, n bigint, label text, amount double precision, ts timestamp"
CONNECTIONS = """
files: {{connector: localfiles, root: in}}
out: {{connector: localfiles, root: out}}
pg: {{connector: postgres, host: {host}, port: {port}, database: {database}, user: {user}, password: "${{BENCH_PASSWORD}}"}}
s3: {{connector: s3, endpoint: "{endpoint}", use_ssl: false, access_key: {key}, secret_key: "${{BENCH_SECRET}}", root: bench}}
"""
#: Sums that tell whether two relations hold the same rows.
SAME = "select count(*), sum(id)::numeric, sum(n)::numeric, min(ts), max(ts), count(distinct label) from {}"


#: Nobody calls home while being timed.
_QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "INGESTR_DISABLE_TELEMETRY": "true", "DISABLE_TELEMETRY": "true"}


@dataclass(frozen=True)
class Job:
    """One piece of work that everybody does.

    Args:
        name: of the job.
        source, sink: pz's calls.
        raw: statements of DuckDB for the same.
        peers: where from, where to and how, for the other tools.
        prepare: statements of Postgres before every run, whoever runs.
        made_pz, made_raw: what each has made, to be counted.
    """

    name: str
    source: str
    sink: str
    raw: tuple[str, ...]
    peers: tuple[str, str, str]
    prepare: str = ""
    made_pz: str = "pg.public.made"
    made_raw: str = "pg.public.made"


_CLEAR = "drop table if exists made; drop table if exists batch; drop schema if exists peer cascade"
_EMPTY = f"create table made ({COLUMNS})"
#: A target with all rows, and a key. The batch has a tenth as many: half of them are there already.
_FULL = "create table made as table rows; alter table made add primary key (id)"
_MERGE = (
    "create table pg.public.batch as select * from read_csv('in/batch.csv')",
    "call postgres_execute('pg', 'insert into made select * from batch on conflict (id) do update set "
    "n = excluded.n, label = excluded.label, amount = excluded.amount, ts = excluded.ts; drop table batch')",
)

JOBS = (
    Job(
        "pg_to_parquet",
        "source('pg', 'public.rows')",
        "sink('out', 'made', strategy: 'replace', format: 'parquet')",
        ("copy (select * from pg.public.rows) to 'raw.parquet' (format parquet)",),
        made_pz="'out/made/made.parquet'",
        made_raw="'raw.parquet'",
        peers=("pg", "files", "replace"),
    ),
    Job(
        "csv_to_pg_append",
        "source('files', 'rows', format: 'csv')",
        "sink('pg', 'public.made', strategy: 'append')",
        ("insert into pg.public.made select * from read_csv('in/rows.csv')",),
        prepare=_EMPTY,
        peers=("csv", "pg", "append"),
    ),
    Job(
        "csv_to_pg_replace",
        "source('files', 'rows', format: 'csv')",
        "sink('pg', 'public.made', strategy: 'replace')",
        (
            "begin",
            "drop table if exists pg.public.made",
            "create table pg.public.made as select * from read_csv('in/rows.csv')",
            "commit",
        ),
        prepare=_EMPTY,
        peers=("csv", "pg", "replace"),
    ),
    Job(
        "csv_to_pg_merge",
        "source('files', 'batch', format: 'csv')",
        "sink('pg', 'public.made', strategy: 'merge', keys: ['id'])",
        _MERGE,
        prepare=_FULL,
        peers=("batch", "pg", "merge"),
    ),
    Job(
        "pg_to_pg",
        "source('pg', 'public.rows')",
        "sink('pg', 'public.made', strategy: 'append')",
        ("insert into pg.public.made select * from pg.public.rows",),
        prepare=_EMPTY,
        peers=("pg", "pg", "append"),
    ),
    Job(
        "csv_to_s3_parquet",
        "source('files', 'rows', format: 'csv')",
        "sink('s3', 'made', strategy: 'replace', format: 'parquet')",
        ("copy (select * from read_csv('in/rows.csv')) to 's3://bench/raw/raw.parquet' (format parquet)",),
        made_pz="'s3://bench/made/made.parquet'",
        made_raw="'s3://bench/raw/raw.parquet'",
        peers=("csv", "s3", "replace"),
    ),
    Job(
        "s3_to_pg",
        "source('s3', 'rows', path: 'in/rows.parquet', format: 'parquet')",
        "sink('pg', 'public.made', strategy: 'append')",
        ("insert into pg.public.made select * from 's3://bench/in/rows.parquet'",),
        prepare=_EMPTY,
        peers=("s3", "pg", "append"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The servers, and a folder with ``in/rows.csv``."""

    database: Any
    store: Any
    source: Path

    def env(self) -> dict[str, str]:
        return {**os.environ, "BENCH_PASSWORD": self.database.password, "BENCH_SECRET": self.store.secret}

    def before(self) -> list[str]:
        """What DuckDB needs before it reaches both servers."""
        libpq = (
            f"host={self.database.host} port={self.database.port} dbname={self.database.database} "
            f"user={self.database.user} password={self.database.password}"
        )
        return [
            "set enable_progress_bar = false",
            *(f"load '{_extension(name)}'" for name in ("postgres_scanner", "httpfs")),
            f"create secret (type s3, key_id '{self.store.key}', secret '{self.store.secret}', use_ssl false, "
            f"url_style 'path', endpoint '{self.store.endpoint}')",
            f"attach '{libpq}' as pg (type postgres)",
        ]


def _extension(name: str) -> Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None and spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).rglob(f"{name}.duckdb_extension"))


def in_duckdb(statements: list[str], cwd: Path) -> list[str]:
    """The command that runs statements in a DuckDB of its own."""
    program = "import duckdb, json, sys\ncon = duckdb.connect()\nfor s in json.load(open(sys.argv[1])): con.execute(s)"
    script = cwd / "raw.json"
    script.write_text(json.dumps(statements))
    return [PYTHON, "-c", program, str(script)]


def asked(site: Site, sql: str, cwd: Path) -> str:
    """The answer to one query, in a process of its own: the kernel counts a parent's memory to its children."""
    program = (
        "import duckdb, json, sys\ncon = duckdb.connect()\n"
        "for s in json.load(sys.stdin): done = con.execute(s)\nprint(done.fetchall())"
    )
    statements = json.dumps([*site.before(), sql])
    done = subprocess.run(
        [PYTHON, "-c", program], input=statements, capture_output=True, text=True, cwd=cwd, check=False
    )
    if done.returncode:
        raise Failed(done.stderr[-1000:])
    return done.stdout.strip()


def peer_commands(job: Job, site: Site, peers: Path, root: Path) -> dict[str, list[str]]:
    """The other tools' commands for a job."""
    source, target, strategy = job.peers
    made: dict[str, list[str]] = {}
    given = {
        "pg": site.database.url, "root": str(root), "endpoint": site.store.url, "key": site.store.key,
        "secret": site.store.secret, "job": list(job.peers),
    }  # fmt: skip
    for backend in ("connectorx", "pyarrow") if source == "pg" else ("",):
        name = f"dlt_{backend}" if backend else "dlt"
        script = root / f"{name}.json"
        script.write_text(json.dumps({**given, "backend": backend}))
        made[name] = [str(peers / "bin" / "python"), str(HERE / "peer_dlt.py"), str(script)]
    keys = f"access_key_id={site.store.key}&secret_access_key={site.store.secret}&endpoint_url={site.store.url}"
    addresses = {
        "pg": site.database.url,
        "csv": f"csv://{root}/in/rows.csv",
        "batch": f"csv://{root}/in/batch.csv",
        "files": f"parquet://{root}/peer.parquet",
        "s3": f"s3://?{keys}",
    }
    tables = {"pg": "public.rows", "csv": "rows", "batch": "batch", "s3": "bench/in/rows.parquet"}
    targets = {"pg": "public.made" if strategy == "merge" else "peer.made", "files": "peer.made", "s3": "bench/peer"}
    made["ingestr"] = [
        str(peers / "bin" / "ingestr"), "ingest", "--yes", "--progress", "log",
        "--source-uri", addresses[source], "--source-table", tables[source],
        "--dest-uri", addresses[target], "--dest-table", targets[target], "--incremental-strategy", strategy,
        *(("--primary-key", "id") if strategy == "merge" else ()),
    ]  # fmt: skip
    return made


def bench(job: Job, site: Site, runs: int, peers: Path | None, patience: float) -> dict[str, object]:
    """Everybody in turn, so often; each from the same state."""
    root = Path(tempfile.mkdtemp(prefix="pz-bench-"))
    try:
        address = {f: getattr(site.database, f) for f in ("host", "port", "database", "user")}
        connections = CONNECTIONS.format(**address, endpoint=site.store.endpoint, key=site.store.key)
        write(
            root,
            {
                "project.yml": "name: bench\nversion: 1.0.0\n",
                "connections.yml": connections,
                "pipelines/p.sql": f"INSERT INTO {{{{ {job.sink} }}}}\nselect * from {{{{ {job.source} }}}}\n",
                "pipelines/configs/p.yml": "pipeline: p\nmaterialization: view\n",
            },
        )
        (root / "in").symlink_to(site.source)
        (root / "out").mkdir()
        raw = in_duckdb([*site.before(), *job.raw], root)
        commands = {} if peers is None else peer_commands(job, site, peers, root)
        readings: dict[str, list[Reading]] = {name: [] for name in ("pz", "raw", *commands)}
        failed: dict[str, str] = {}
        for _ in range(runs):
            _prepare(job, site)
            readings["pz"].append(timed([PZ, "run"], root, site.env()))
            ours = asked(site, SAME.format(job.made_pz), root)
            _prepare(job, site)
            readings["raw"].append(timed(raw, root))
            theirs = asked(site, SAME.format(job.made_raw), root)
            if ours != theirs:
                raise Failed(f"{job.name}: pz made {ours}, DuckDB {theirs}")
            for name in [n for n in commands if n not in failed]:
                _prepare(job, site)
                shutil.rmtree(root / ".dlt", ignore_errors=True)
                try:
                    readings[name].append(
                        timed(commands[name], root, {**os.environ, **_QUIET, "HOME": str(root)}, patience)
                    )
                except Failed as error:
                    failed[name] = str(error)
        made: dict[str, object] = dict(result(readings["pz"], readings["raw"]))
        for name in commands:
            if name in failed:
                made[f"{name}_failed"] = failed[name].strip().splitlines()[-1][:200]
            else:
                made[f"{name}_wall_s"] = round(median(readings[name], "wall"), 3)
        return made
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _prepare(job: Job, site: Site) -> None:
    for sql in f"{_CLEAR}; {job.prepare}; checkpoint".split(";"):
        if sql.strip():
            site.database.run(sql)


@contextlib.contextmanager
def servers() -> Iterator[tuple[Any, Any]]:
    """PostgreSQL and an S3 store, stopped at the end."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from servers.postgres import start_postgres
    from servers.s3 import start_s3

    stops: list[Callable[[], None]] = []
    try:
        database = start_postgres()
        stops.append(database.stop)
        store = start_s3()
        stops.append(store.stop)
        store.store.client().create_bucket(Bucket=BUCKET)
        yield database.address, replace(store.store, bucket=BUCKET)
    finally:
        for stop in reversed(stops):
            stop()


def fill(site: Site, rows: int) -> None:
    """The same rows in a CSV file, in Postgres and in S3, and a batch for the merge."""
    site.database.run(f"create table rows ({COLUMNS})")
    make = in_duckdb(
        [
            *site.before(),
            f"create table t as {ROWS.format(rows=rows)}",
            "copy t to 'rows.csv' (header)",
            f"copy (select * replace (id + {rows - rows // 20} as id, n + 1 as n) from t limit {rows // 10}) to 'batch.csv' (header)",
            "copy t to 's3://bench/in/rows.parquet' (format parquet)",
            "insert into pg.public.rows select * from t",
        ],
        site.source,
    )
    timed(make, site.source)
    site.database.run("vacuum analyze rows")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--patience", type=float, default=180, help="seconds after which another tool is stopped")
    args = parser.parse_args()
    report = machine(args.runs)
    jobs: dict[str, object] = {}
    for rows in args.rows:
        with tempfile.TemporaryDirectory(prefix="pz-bench-in-") as folder, servers() as (database, store):
            site = Site(database, store, Path(folder))
            fill(site, rows)
            for job in JOBS:
                if args.only and job.name not in args.only:
                    continue
                jobs[f"{job.name}_{rows}"] = made = bench(job, site, args.runs, args.peers, args.patience)
                print(f"{job.name}_{rows:<12} {made}", flush=True)
    report["jobs"] = jobs
    if not args.only:
        keep(report, "places.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

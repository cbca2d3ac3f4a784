"""A project on disk, run in this process through the real engine and the first-party connectors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from pz_core.compile.graph import compile_project
from pz_core.compile.model import RunConstants
from pz_core.plan.planner import make_plan
from pz_core.project import load_project
from pz_core.run.execute import execute
from pz_core.run.runid import mint


class Lab:
    """Writes a project, runs it, and looks at what it left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = datetime(2026, 6, 1, 12, tzinfo=UTC)
        self.write("project.yml", "name: lab\nversion: 1.0.0\n")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def connections(self, read: str = "", connector: str = "") -> None:
        """``shop`` reads ``in/``, ``mart`` is a DuckDB file, ``lake`` holds parquet."""
        self.write(
            "connections.yml",
            f"""
shop:
  connector: localfiles
  root: in
  entities:
    orders:
      read:
        format: csv
{read}
mart: {{connector: duckdb, path: mart.duckdb}}
lake: {{connector: localfiles, root: out}}
""",
        )

    def run(self, *names: str, root: Path | None = None, registry=None, prepare=None, **named):
        """Load, compile, plan and execute; the ids of all nodes unless ``names`` are given."""
        self.clock += timedelta(seconds=1)
        started = self.clock.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        run_id = mint(self.clock)
        loaded = load_project(self.root)
        graph = compile_project(loaded, constants=RunConstants(run_id, started))
        chosen = frozenset(n.id for n in graph.nodes if not names or n.name in names)
        plan = make_plan(graph, loaded.registry, executed=chosen)
        self.last = self.root / ".pz" / "runs" / run_id
        return execute(
            plan,
            chosen,
            registry or loaded.registry,
            run_id=run_id,
            started_at=started,
            handle_signals=False,
            **named,
        )

    def stored(self, dataset: str = "shop.orders") -> str | None:
        """The value in the local state."""
        path = self.root / ".pz" / "state" / "watermarks.json"
        entry = json.loads(path.read_text())["watermarks"].get(dataset) if path.exists() else None
        return entry["value"] if entry else None

    def store(self, value: str, kind: str = "timestamp", cursor: str = "ts", dataset: str = "shop.orders") -> None:
        entry = {"cursor": cursor, "type": kind, "value": value, "runId": "20260101T000000000Z-0000"}
        self.write(".pz/state/watermarks.json", json.dumps({"version": 1, "watermarks": {dataset: entry}}))

    def results(self) -> dict:
        return json.loads((self.last / "run_results.json").read_text())

    def node(self, name: str) -> dict:
        return next(n for n in self.results()["nodes"] if n["name"] == name)

    def ask(self, sql: str) -> list:
        with duckdb.connect() as connection:
            return connection.execute(sql).fetchall()

    def staged(self, relation: str = "src_shop__orders", column: str = "id") -> list:
        """A column of a relation of the last run's staging, sorted."""
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{self.last / 'staging.duckdb'}' AS s (READ_ONLY)")
            rows = connection.execute(f"SELECT {column} FROM s.staging.{relation} ORDER BY 1").fetchall()
        return [row[0] for row in rows]

    def notes(self, result) -> str:
        return " | ".join(notice.message for notice in result.notices)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)

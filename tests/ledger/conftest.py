"""A project whose outputs keep a ledger, run by the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.cli.main import invoke

PLAIN = "id > {{ watermark('shop', 'orders') }}"


@dataclass
class Said:
    code: int
    out: str
    err: str


@dataclass
class Lab:
    """``shop`` reads csv files, ``mart`` and ``twin`` are DuckDB files, ``jam`` is one that cannot be made."""

    root: Path
    call: Callable[..., Said]

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def project(self, *, universal: bool = False, name: str = "led", more: str = "") -> None:
        engine = "engine: {force_universal: true}\n" if universal else ""
        self.write("project.yml", f"name: {name}\nversion: 1.0.0\n{engine}{more}")

    def connections(self, *, cursor: str = "bigint", sync: str = "", shop: str = "") -> None:
        read = f'format: csv, path: "orders*.csv", columns: {{id: "{cursor}", v: varchar}}{sync}'
        self.write(
            "connections.yml",
            f"""
shop:
  connector: localfiles
  root: in
  entities:
    orders: {{read: {{{read}}}}}
    others: {{read: {{format: csv, path: "others*.csv", columns: {{id: bigint, v: varchar}}}}}}
{shop}
mart: {{connector: duckdb, path: mart.duckdb}}
twin: {{connector: duckdb, path: twin.duckdb, retry: {{max_attempts: 1}}}}
lake: {{connector: localfiles, root: out}}
""",
        )

    def pipeline(self, *sinks: str, where: str = PLAIN, name: str = "p", entity: str = "orders") -> None:
        calls = ", ".join(f"{{{{ {sink} }}}}" for sink in sinks)
        into = calls if len(sinks) == 1 else f"[{calls}]"
        self.write(
            f"pipelines/{name}.sql",
            f"INSERT INTO {into}\nselect id, v from {{{{ source('shop', '{entity}') }}}} where {where}\n",
        )

    def feed(self, *ids: Any, file: str = "orders") -> None:
        """Add a file with these rows."""
        number = len(list((self.root / "in").glob(f"{file}*.csv"))) if (self.root / "in").exists() else 0
        self.write(f"in/{file}{number}.csv", "id,v\n" + "".join(f"{i},x\n" for i in ids))

    def pz(self, *argv: str, code: int = 0) -> Said:
        said = self.call(*argv)
        assert said.code == code, (argv, said)
        return said

    def results(self) -> dict[str, Any]:
        newest = max((self.root / ".pz" / "runs").iterdir())
        found: dict[str, Any] = json.loads((newest / "run_results.json").read_text())
        return found

    def node(self, name: str) -> dict[str, Any]:
        return next(node for node in self.results()["nodes"] if node["name"] == name)

    @property
    def state_file(self) -> Path:
        return self.root / ".pz" / "state" / "watermarks.json"

    def stored(self, key: str = "shop.orders") -> str | None:
        if not self.state_file.exists():
            return None
        entry = json.loads(self.state_file.read_text())["watermarks"].get(key)
        return None if entry is None else str(entry["value"])

    def run_and_forget(self, *argv: str, code: int = 0) -> Said:
        """A run that was killed after its outputs committed and before its watermark was written."""
        before = self.state_file.read_text() if self.state_file.exists() else None
        said = self.pz("run", *argv, code=code)
        if before is None:
            self.state_file.unlink(missing_ok=True)
        else:
            self.state_file.write_text(before)
        return said

    def ask(self, sql: str, database: str = "mart") -> list[Any]:
        with duckdb.connect(str(self.root / f"{database}.duckdb")) as connection:
            return connection.execute(sql).fetchall()

    def ids(self, table: str = "orders", database: str = "mart") -> list[Any]:
        return [row[0] for row in self.ask(f"select id from {table} order by all", database)]

    def uppers(self, database: str = "mart") -> dict[tuple[str, str], str]:
        rows = self.ask("select dataset, sink, upper_value from _pz_ledger where dataset <> ''", database)
        return {(dataset, sink): upper for dataset, sink, upper in rows}


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> Said:
        capsys.readouterr()
        code = invoke(argv)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    made = Lab(tmp_path, call)
    made.project()
    made.connections()
    return made

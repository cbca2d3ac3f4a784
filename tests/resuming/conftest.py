from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.cli.main import invoke

PLUGIN = Path(__file__).parent / "plugin"


@dataclass
class Said:
    code: int
    out: str
    err: str


class Lab:
    """A project in a folder of its own, the command line in this process, and a connector that does as it is told."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str], places: Any) -> None:
        self.root, self._capture, self.places = root, capture, places
        self.world = places.WORLD

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def connections(self, place: str = "here", password: str = "pw-0123456789", connector: str = "scripted") -> None:
        retry = "retry: {max_attempts: 3, base_delay: 1ms, max_delay: 1ms}"
        self.write(
            "connections.yml",
            f"src: {{connector: {connector}, place: {place}, password: {password}, {retry}}}\n"
            f"api: {{connector: {connector}, place: {place}, password: {password}, {retry}}}\n"
            "lake: {connector: localfiles, root: out}\n"
            "jammed: {connector: localfiles, root: jam}\n",
        )

    def pipeline(self, name: str, sinks: str, sql: str) -> None:
        self.write(f"pipelines/{name}.sql", f"INSERT INTO {sinks}\n{sql}\n")

    def pz(self, *argv: str, code: int = 0) -> Said:
        self._capture.readouterr()
        found = invoke(argv)
        told = self._capture.readouterr()
        said = Said(found, told.out, told.err)
        assert said.code == code, (argv, said)
        return said

    def last(self) -> Path:
        return max(d for d in (self.root / ".pz" / "runs").iterdir())

    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.last() / "run_results.json").read_text())
        return found

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.results()["nodes"]}

    def tampered(self, sql: str) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.last() / 'staging.duckdb'}' as run")
            connection.execute(sql)

    def token(self, key: str) -> str | None:
        path = self.root / ".pz" / "state" / "sync-state.json"
        entry = json.loads(path.read_text())["syncState"].get(key) if path.exists() else None
        return None if entry is None else str(entry["token"])

    def rows(self, where: str) -> list[int]:
        with duckdb.connect() as connection:
            path = str(self.root / where)
            return [r[0] for r in connection.execute(f"select id from read_parquet('{path}') order by 1").fetchall()]

    def staged(self, relation: str) -> list[int]:
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.last() / 'staging.duckdb'}' as s (read_only)")
            return [r[0] for r in connection.execute(f"select id from s.staging.{relation} order by 1").fetchall()]


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    installed = tmp_path / "site" / "scripted_places-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-places\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[pz]\nconnector.scripted = scripted_places\nconnector.plain = scripted_places\n"
    )
    monkeypatch.setattr(sys, "path", [str(installed.parent), str(PLUGIN), *sys.path])
    importlib.invalidate_caches()
    places = importlib.import_module("scripted_places")
    places.WORLD.__dict__.update(places.World().__dict__)
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    made = Lab(root, capsys, places)
    made.write("project.yml", "name: again\nversion: 1.0.0\n")
    made.connections()
    yield made
    sys.modules.pop("scripted_places", None)

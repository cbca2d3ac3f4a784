"""A run that is killed at a point leaves old or new everywhere, and the next command finishes its work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from killer import POINTS, UNIVERSAL  # noqa: E402  (the script that the killed processes run)

SINKS = """INSERT INTO [{{ sink('mart', 'plain', duplicates: 'accept') }},
 {{ sink('vault', 'once', duplicates: 'refuse') }}, {{ sink('well', 'merged', strategy: 'merge', keys: ['id']) }}]
select id, v from {{ source('shop', 'orders') }} where id > {{ watermark('shop', 'orders') }}
"""
FILES = {
    "connections.yml": """
shop:
  connector: localfiles
  root: in
  entities:
    orders: {read: {format: csv, path: "orders*.csv", columns: {id: bigint, v: varchar}}}
    items: {read: {format: csv, columns: {id: bigint, v: varchar}}}
mart: {connector: duckdb, path: mart.duckdb}
vault: {connector: duckdb, path: vault.duckdb}
well: {connector: duckdb, path: well.duckdb}
lake: {connector: localfiles, root: out}
""",
    "pipelines/p.sql": SINKS,
    "pipelines/configs/p.yml": "pipeline: p\nchecks:\n  - not_null: [id]\n",
    "pipelines/q.sql": "INSERT INTO {{ sink('lake', 'items', strategy: 'replace', format: 'parquet') }}\n"
    "select id, v from {{ source('shop', 'items') }}\n",
    "in/orders1.csv": "id,v\n1,a\n2,b\n",
    "in/items.csv": "id,v\n1,old\n",
}
OLD = {"plain": [1, 2], "once": [1, 2], "merged": [1, 2], "items": [(1, "old")]}
NEW = {"plain": [1, 2, 3, 4], "once": [1, 2, 3, 4], "merged": [1, 2, 3, 4], "items": [(1, "new"), (2, "new")]}
#: What ``make test`` runs; the others come with ``make deep``.
SHORT = [
    "run.folder.made",
    "results.first",
    "staging.opened",
    "ledger.made",
    "land.read",
    "land.all.done",
    "materialise.done",
    "append.uncommitted",
    "append.committed",
    "ledger.written",
    "ledger.uncommitted",
    "ledger.committed",
    "merge.committed",
    "copy.durable",
    "copy.moved",
    "drain.all.done",
    "results.flushed",
    "state.unnamed",
    "state.named",
    "results.last",
    "results.last.written",
]
SHORT_UNIVERSAL = ["half.committed", "ledger.written"]
#: Points that lie on no way of batches.
NATIVE_ONLY = {name for name in POINTS if name.split(".")[0] in ("append", "merge", "copy")} | {
    "land.read",
    "ledger.uncommitted",
    "ledger.committed",
}


class Server:
    """Processes that run ``pz``, each new and each ready at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "killer.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, folder: Path, argv: list[str], point: str, kind: str) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"folder": str(folder), "argv": argv, "point": point, "kind": kind}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@dataclass
class Yard:
    """A project, and commands that are run in it; ``said`` is what the last one wrote."""

    root: Path
    universal: bool
    server: Server

    def pz(self, *argv: str, point: str = "", kind: str = "KILL") -> int:
        return self.server.run(self.root, list(argv), point, f"UNIVERSAL_{kind}" if self.universal else kind)

    @property
    def said(self) -> str:
        return (self.root / "said").read_text()

    def content(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, table in (("mart", "plain"), ("vault", "once"), ("well", "merged")):
            with duckdb.connect(str(self.root / f"{name}.duckdb")) as connection:
                made[table] = [row[0] for row in connection.execute(f"select id from {table} order by 1").fetchall()]
        with duckdb.connect() as connection:
            files = str(self.root / "out" / "items" / "*.parquet")
            made["items"] = connection.execute(f"select id, v from read_parquet('{files}') order by 1").fetchall()
        return made

    def stored(self) -> str:
        text = (self.root / ".pz" / "state" / "watermarks.json").read_text()
        return str(json.loads(text)["watermarks"]["shop.orders"]["value"])

    def newest(self) -> dict[str, Any] | None:
        path = max(d for d in (self.root / ".pz" / "runs").iterdir()) / "run_results.json"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture(scope="module")
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: Server) -> Yard:
    """After a first run, with new rows to read; ``param`` says whether rows move in batches."""
    root = tmp_path_factory.mktemp("yard")
    engine = "engine: {threads: 1, force_universal: true}" if request.param else "engine: {threads: 1}"
    for path, text in {"project.yml": f"name: yard\nversion: 1.0.0\n{engine}\n", **FILES}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    made = Yard(root, request.param, server)
    assert made.pz("run", "--all") == 0, made.said
    assert made.content() == OLD
    (root / "in/orders2.csv").write_text("id,v\n3,c\n4,d\n")
    (root / "in/items.csv").write_text("id,v\n1,new\n2,new\n")
    return made


@pytest.fixture
def yard(grown: Yard, tmp_path: Path) -> Yard:
    shutil.copytree(grown.root, tmp_path / "yard")
    return Yard(tmp_path / "yard", grown.universal, grown.server)


def _cases() -> list[Any]:
    made = [(False, name, name not in SHORT) for name in POINTS]
    made += [(True, name, name not in SHORT_UNIVERSAL) for name in (*POINTS.keys() - NATIVE_ONLY, *UNIVERSAL)]
    return [
        pytest.param(
            universal,
            name,
            marks=(pytest.mark.deep,) if deep else (),
            id=f"{'universal' if universal else 'native'}-{name}",
        )
        for universal, name, deep in sorted(set(made))
    ]


@pytest.mark.parametrize(("grown", "point"), _cases(), indirect=["grown"])
def test_a_killed_run_leaves_old_or_new_and_the_next_one_finishes_its_work(yard: Yard, point: str) -> None:
    assert yard.pz("run", "--all", point=point) == -signal.SIGKILL, yard.said

    left, stored = yard.content(), yard.stored()
    assert all(left[name] in (OLD[name], NEW[name]) for name in OLD), left
    assert stored in ("2", "4")
    if stored == "4":
        assert left == NEW  # a mark moves only once every output has the rows
    results = yard.newest()
    assert results is None or results["status"] in ("running", "success")
    if results is not None and results["status"] == "success" and len(results["nodes"]) > 5:
        assert results.get("finishedAt")

    retried = yard.pz("retry")
    assert (retried, "nothing to retry" in yard.said) in ((2, False), (0, True)), yard.said
    assert yard.pz("run", "--all", "--until-caught-up") == 0, yard.said

    twice = left["plain"] == NEW["plain"] and stored == "2"
    wanted = {**NEW, "plain": sorted([*NEW["plain"], 3, 4] if twice else NEW["plain"])}
    assert (yard.content(), yard.stored()) == (wanted, "4")
    assert sorted(path.name for path in (yard.root / "out" / "items").iterdir()) == ["items.parquet"]
    assert not list((yard.root / ".pz" / "state").glob("*.tmp")) and not list((yard.root / ".pz" / "tmp").iterdir())
    results = yard.newest()
    assert results is not None and results["status"] == "success"


@pytest.mark.parametrize("grown", [False], indirect=True, ids=["native"])
@pytest.mark.parametrize(("kind", "point"), [("INT", "land.read"), ("TERM", "drain.half.done")])
def test_a_run_that_is_told_to_stop_ends_in_order(yard: Yard, kind: str, point: str) -> None:
    assert yard.pz("run", "--all", point=point, kind=kind) == 3, yard.said
    assert (yard.root / "struck").exists() and "Traceback" not in yard.said
    left = yard.content()
    assert all(left[name] in (OLD[name], NEW[name]) for name in OLD), left
    results = yard.newest()
    assert results is not None and results["status"] == "fatal" and results["finishedAt"]
    assert yard.pz("retry") == 2 and "PZ0504" in yard.said
    assert yard.pz("run", "--all", "--until-caught-up") == 0, yard.said
    twice = left["plain"] == NEW["plain"]
    wanted = {**NEW, "plain": sorted([*NEW["plain"], 3, 4] if twice else NEW["plain"])}
    assert (yard.content(), yard.stored()) == (wanted, "4")

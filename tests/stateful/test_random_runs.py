"""Random sequences of loads, late rows, failures, retries and refreshes against a model in plain Python.

After every step each target, each watermark and each ledger must be what the model says: nothing lost, nothing twice.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pz_core.cli.main import invoke
from pz_core.compile.graph import compile_project
from pz_core.contract.connector import ConnectorError
from pz_core.engines.duckdb.engine import DuckDBEngine
from pz_core.plan.planner import make_plan
from pz_core.project import load_project
from pz_core.run.execute import execute
from pz_core.run.runid import mint

Row = tuple[int, int | None, str]
FILES = {
    "project.yml": "name: walk\nversion: 1.0.0\nengine: {threads: 1, duckdb: {threads: 1}}\n",
    "connections.yml": """
src:
  connector: duckdb
  path: src.duckdb
  entities:
    windowed: {read: {columns: {id: bigint, k: bigint, v: varchar},
                      sync: {mode: incremental, cursor: k, max_window: 7, initial: 0}}}
mart: {connector: duckdb, path: mart.duckdb, retry: {max_attempts: 1}}
vault: {connector: duckdb, path: vault.duckdb, retry: {max_attempts: 1}}
""",
    "pipelines/p.sql": """INSERT INTO [{{ sink('mart', 'plain', duplicates: 'accept') }},
  {{ sink('mart', 'once', duplicates: 'refuse') }}, {{ sink('vault', 'once', duplicates: 'refuse') }}]
select id, k, v from {{ source('src', 'orders') }} where k > {{ watermark('src', 'orders') }}
""",
    "pipelines/configs/p.yml": "pipeline: p\nchecks:\n  - accepted_values: {column: v, values: [ok]}\n",
    "pipelines/child.sql": "INSERT INTO {{ sink('mart', 'merged', strategy: 'merge', keys: ['id']) }}\n"
    "select id, k, v from {{ ref('p') }}\n",
    "pipelines/look.sql": "INSERT INTO {{ sink('mart', 'looked', strategy: 'merge', keys: ['id']) }}\n"
    "select id, k, v from {{ source('src', 'looks') }} where k > {{ watermark('src', 'looks') }} - 3\n",
    "pipelines/win.sql": "INSERT INTO [{{ sink('vault', 'windowed', duplicates: 'refuse') }},\n"
    "  {{ sink('mart', 'windowed', strategy: 'merge', keys: ['id']) }}]\n"
    "select id, k, v from {{ source('src', 'windowed') }}\n",
}
#: Output -> its dataset and how it loads.
SINKS = {
    "mart.plain": ("orders", "accept"),
    "mart.once": ("orders", "refuse"),
    "vault.once": ("orders", "refuse"),
    "mart.merged": ("orders", "merge"),
    "mart.looked": ("looks", "merge"),
    "vault.windowed": ("windowed", "refuse"),
    "mart.windowed": ("windowed", "merge"),
}
DATASETS = ("orders", "looks", "windowed")
WINDOW, LOOK_BACK = 7, 3


@dataclass
class Slice:
    """What a run read of a dataset."""

    rows: list[Row]
    base: int | None
    upper: int | None


@dataclass
class LastRun:
    """What a retry has to know of the run before it."""

    slices: dict[str, Slice] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    check_failed: bool = False
    full: bool = False

    @property
    def retriable(self) -> bool:
        return bool(self.failed) or self.check_failed


class Model:
    """The rules, said as plainly as possible."""

    def __init__(self) -> None:
        self.sources: dict[str, list[Row]] = {name: [] for name in DATASETS}
        self.targets: dict[str, list[Row]] = {name: [] for name in SINKS}
        self.marks: dict[str, int] = {}
        self.ledgers: dict[str, int] = {}
        self.last = LastRun()

    def run(self, sinks: set[str], failing: set[str], late: set[str], full: bool) -> None:
        last = LastRun(full=full)
        for dataset in DATASETS:
            mine = {name for name in sinks if SINKS[name][0] == dataset}
            if mine:
                last.slices[dataset] = self.read(dataset, mine, full)
                self.deliver(dataset, mine, failing, late, last)
        orders = last.slices.get("orders")
        last.check_failed = sinks == set(SINKS) and orders is not None and any(r[2] != "ok" for r in orders.rows)
        for dataset in last.slices:
            self.advance(dataset, last)
        self.last = last

    def retry(self, failing: set[str], late: set[str]) -> None:
        before, last = self.last, LastRun(full=self.last.full, check_failed=self.last.check_failed)
        for dataset, found in before.slices.items():
            again = {name for name in before.failed if SINKS[name][0] == dataset}
            if again or (dataset == "orders" and before.check_failed):
                last.slices[dataset] = found
                last.done |= {name for name in before.done if SINKS[name][0] == dataset}
                self.deliver(dataset, again, failing, late, last)
                self.advance(dataset, last)
        self.last = last

    def read(self, dataset: str, sinks: set[str], full: bool) -> Slice:
        base = None if full else self.marks.get(dataset)
        floor = base
        ceiling: int | None = None
        if dataset == "looks" and base is not None:
            floor = base - LOOK_BACK
        if dataset == "windowed":
            floor = 0 if base is None else base
            ceiling = floor + WINDOW
        ahead = [u for name in sinks if (u := self.entry(name, full)) is not None and (base is None or u > base)]
        replay = bool(ahead) and (ceiling is None or ceiling > min(ahead))
        if replay:
            ceiling = min(ahead)
        rows = [
            row
            for row in self.sources[dataset]
            if (base is None if row[1] is None else (floor is None or row[1] > floor))
            and (row[1] is None or ceiling is None or row[1] <= ceiling)
        ]
        found = max((row[1] for row in rows if row[1] is not None), default=None)
        upper = ceiling if found is None else found
        return Slice(rows, base, ceiling if replay and not full else upper)

    def entry(self, sink: str, full: bool) -> int | None:
        """How far a ledger says that its output is; one that was emptied and is filled anew has nothing."""
        return None if full and not self.targets[sink] else self.ledgers.get(sink)

    def deliver(self, dataset: str, sinks: set[str], failing: set[str], late: set[str], last: LastRun) -> None:
        found = last.slices[dataset]
        for name in sinks:
            ok = name not in failing and self.load(name, found, last.full) and name not in late
            (last.done if ok else last.failed).add(name)

    def load(self, name: str, found: Slice, full: bool) -> bool:
        how, target = SINKS[name][1], self.targets[name]
        if how == "merge":
            self.targets[name] = list({row[0]: row for row in (*target, *found.rows)}.values())
            return True
        if how == "refuse":
            if found.upper is None:
                return not (found.base is None and found.rows)  # rows without a cursor cannot be told apart
            entry = self.entry(name, full)
            if entry is not None and entry >= found.upper:
                return True
            assert entry is None or (found.base is not None and entry <= found.base), "a part of a batch"
            self.ledgers[name] = found.upper
        target.extend(found.rows)
        return True

    def advance(self, dataset: str, last: LastRun) -> None:
        found = last.slices[dataset]
        everyone = {name for name in SINKS if SINKS[name][0] == dataset}
        if found.upper is None or not everyone <= last.done:
            return
        if last.full or self.marks.get(dataset, -1) < found.upper:
            self.marks[dataset] = found.upper


class Real:
    """The project on disk; compiled once, run as often as asked."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="pz-walk-"))
        for path, text in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.clear()
        project = load_project(self.root)
        self.registry = project.registry
        self.plan = make_plan(compile_project(project), project.registry)
        self.nodes = {node.name: node.id for node in self.plan.nodes}
        self.failing: set[str] = set()
        self.late: set[str] = set()

    def clear(self) -> None:
        for name in ("src.duckdb", "mart.duckdb", "vault.duckdb", "src.duckdb.wal"):
            (self.root / name).unlink(missing_ok=True)
        for name in ("runs", "state"):
            shutil.rmtree(self.root / ".pz" / name, ignore_errors=True)
        self.ask("src", *(f"create table {name} (id bigint, k bigint, v varchar)" for name in DATASETS))

    def ask(self, database: str, *statements: str) -> list[Any]:
        with duckdb.connect(str(self.root / f"{database}.duckdb"), config={"threads": 1}) as connection:
            return [connection.execute(sql).fetchall() for sql in statements]

    def run(self, sinks: set[str], full: bool) -> None:
        now = datetime.now(UTC)  # the clock of pz retry, which takes up the newest run
        ids = self.nodes.values() if sinks == set(SINKS) else (self.nodes[name] for name in sinks)
        execute(
            self.plan,
            frozenset(ids),
            self.registry,
            run_id=mint(now),
            started_at=now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            full_refresh=full,
            handle_signals=False,
        )

    def retry(self) -> int:
        return invoke(["retry", "--project", str(self.root)])

    @property
    def state(self) -> Path:
        return self.root / ".pz" / "state" / "watermarks.json"

    def marks(self) -> dict[str, int]:
        if not self.state.exists():
            return {}
        entries = json.loads(self.state.read_text())["watermarks"]
        return {key.removeprefix("src."): int(entry["value"]) for key, entry in entries.items()}

    def seen(self) -> tuple[dict[str, Counter[Row]], dict[str, int]]:
        targets: dict[str, Counter[Row]] = {name: Counter() for name in SINKS}
        ledgers: dict[str, int] = {}
        for database in ("mart", "vault"):
            if not (self.root / f"{database}.duckdb").exists():
                continue
            [tables] = self.ask(database, "select table_name from duckdb_tables()")
            for (table,) in tables:
                if table == "_pz_ledger":
                    told = f"select sink, upper_value from {table} where dataset <> ''"
                    [rows] = self.ask(database, told)
                    ledgers.update({sink: int(upper) for sink, upper in rows})
                else:
                    [rows] = self.ask(database, f"select id, k, v from {table}")
                    targets[f"{database}.{table}"] = Counter(rows)
        return targets, ledgers


_real: list[Real] = []


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs that fail before they are written, and outputs whose commit is not answered."""
    drain = DuckDBEngine.drain

    def faulty(self: DuckDBEngine, task: Any, control: Any) -> Any:
        real = _real[0]
        if task.node.name in real.failing:
            raise ConnectorError("injected")
        result = drain(self, task, control)
        if task.node.name in real.late:
            raise ConnectorError("injected after the commit")
        return result

    monkeypatch.setattr(DuckDBEngine, "drain", faulty)


cursors = st.one_of(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.none())
outputs = st.sets(st.sampled_from(sorted(SINKS)), max_size=2)


class Walk(RuleBasedStateMachine):
    """One project through a random history."""

    @initialize()
    def begin(self) -> None:
        if not _real:
            _real.append(Real())
        self.real, self.model = _real[0], Model()
        self.real.clear()
        self.next_id = 0
        self.retriable = False

    @rule(dataset=st.sampled_from(DATASETS), ks=st.lists(cursors, min_size=1, max_size=4), good=st.booleans())
    def arrive(self, dataset: str, ks: list[int | None], good: bool) -> None:
        """New rows: on time, late, tied with others, without a cursor."""
        rows: list[Row] = []
        for k in ks:
            self.next_id += 1
            rows.append((self.next_id, k, "ok" if good else "bad"))
        self.model.sources[dataset] += rows
        values = ", ".join(f"({i}, {'null' if k is None else k}, '{v}')" for i, k, v in rows)
        self.real.ask("src", f"insert into {dataset} values {values}")

    @rule(dataset=st.sampled_from(DATASETS))
    def vanish(self, dataset: str) -> None:
        """The newest row is gone from the source."""
        rows = self.model.sources[dataset]
        if rows:
            gone = max(rows, key=lambda row: (row[1] or 0, row[0]))
            rows.remove(gone)
            self.real.ask("src", f"delete from {dataset} where id = {gone[0]}")

    @rule(
        failing=outputs,
        late=outputs,
        full=st.sampled_from([False, False, False, True]),
        forget=st.sampled_from([False, False, True]),
        some=st.one_of(st.none(), st.none(), st.sets(st.sampled_from(sorted(SINKS)), min_size=1, max_size=3)),
    )
    def run(self, failing: set[str], late: set[str], full: bool, forget: bool, some: set[str] | None) -> None:
        """A run, of everything or of some outputs; it may be killed between its last commit and its first mark."""
        self.carry_out(failing, late, full, forget, some)

    @rule(full=st.sampled_from([False, False, False, True]))
    def good_run(self, full: bool) -> None:
        """A run of everything in which nothing is injected."""
        self.carry_out(set(), set(), full, False, None)

    def carry_out(self, failing: set[str], late: set[str], full: bool, forget: bool, some: set[str] | None) -> None:
        """Run for real and in the model."""
        sinks = set(SINKS) if some is None else some
        self.real.failing, self.real.late = failing, late
        state = self.real.state.read_text() if self.real.state.exists() else None
        marks = dict(self.model.marks)
        self.real.run(sinks, full)
        self.model.run(sinks, failing, late, full)
        self.retriable = self.model.last.retriable
        if forget:
            if state is None:
                self.real.state.unlink(missing_ok=True)
            else:
                self.real.state.write_text(state)
            self.model.marks = marks
            self.retriable = False  # such a run is refused by pz retry
        self.compare()

    @precondition(lambda self: getattr(self, "retriable", False))
    @rule(failing=outputs, late=outputs)
    def retry(self, failing: set[str], late: set[str]) -> None:
        """What failed, on the rows that were read then."""
        self.real.failing, self.real.late = failing, late
        code = self.real.retry()
        self.model.retry(failing, late)
        self.retriable = self.model.last.retriable
        assert code == int(self.retriable), code
        self.compare()

    @rule(sink=st.sampled_from(sorted(SINKS)))
    def empty(self, sink: str) -> None:
        """Somebody empties a target."""
        if self.model.targets[sink]:
            database, _, table = sink.partition(".")
            self.real.ask(database, f"delete from {table}")
            self.model.targets[sink] = []

    def compare(self) -> None:
        targets, ledgers = self.real.seen()
        assert self.real.marks() == self.model.marks
        assert ledgers == self.model.ledgers
        for name in SINKS:
            assert targets[name] == Counter(self.model.targets[name]), name


_DEEP = bool(os.environ.get("PZ_DEEP"))
_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_random_histories_end_as_the_model_says() -> None:
    _walk(5, 14)


@pytest.mark.deep
def test_many_random_histories_end_as_the_model_says() -> None:
    _walk(300, 30)


def _walk(examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not _DEEP,
        suppress_health_check=_CHECKS,
    )
    try:
        run_state_machine_as_test(Walk, settings=chosen)
    finally:
        while _real:
            shutil.rmtree(_real.pop().root, ignore_errors=True)

"""The order of ``pz run`` and ``pz test``, with every room below replaced by a recorder."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pz_core.compile.dry
import pz_core.compile.graph
import pz_core.compile.select
import pz_core.plan.artifacts
import pz_core.plan.options
import pz_core.plan.planner
import pz_core.project
import pz_core.run.execute
from pz_core.compile.model import Graph
from pz_core.errors import Notice, PzError, PzErrors, Where
from pz_core.project.model import Project


class Registry:
    offers = ()

    def version(self, distribution: str) -> str | None:
        return None

    def __init__(self, **observers: Any) -> None:
        self.observers = observers
        self.engine_fault: PzError | None = None

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(self.observers) if kind == "observer" else ()

    def load(self, kind: str, name: str) -> Any:
        if kind == "engine":
            if self.engine_fault is not None:
                raise self.engine_fault
            return object
        if isinstance(self.observers[name], Exception):
            raise self.observers[name]
        return self.observers[name]


class Steps:
    """Records calls; a step whose name is in ``fails`` raises that error, one in ``does`` calls that."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self.arguments: dict[str, Any] = {}
        self.registry = Registry()
        self.result: dict[str, Any] = {}

    def step(self, name: str, value: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            self.arguments[name] = kwargs
            if name in self.fails:
                raise self.fails[name]
            return value(*args, **kwargs) if callable(value) else value

        return call

    def run_result(self, plan: Any, selected: Any, registry: Any, **kwargs: Any) -> Any:
        made = {
            "run_id": kwargs["run_id"],
            "status": "success",
            "exit_code": 0,
            "nodes": (),
            "results_path": Path(".pz/runs/x/run_results.json").absolute(),
            "stored_in": None,
            "notices": (),
            "errors": (),
            "swept": None,
            "duration_ms": 12,
        }
        return SimpleNamespace(**{**made, **self.result})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Steps:
    made = Steps()
    graph = Graph(Project(tmp_path, "demo", "1"), ())
    loaded = SimpleNamespace(
        project=graph.project, registry=made.registry, notices=(Notice("warning", "loaded", "PZ0135"),)
    )
    plan = SimpleNamespace(graph=graph, nodes=(), notices=())
    for module, name, value in (
        (pz_core.project, "load_project", loaded),
        (pz_core.compile.graph, "compile_project", graph),
        (pz_core.plan.options, "check_options", ()),
        (pz_core.compile.dry, "dry_compile", None),
        (pz_core.compile.select, "select", frozenset({"a"})),
        (pz_core.compile.select, "checks_with_ancestors", lambda graph, ids: frozenset(ids)),
        (pz_core.compile.select, "with_ancestors", lambda graph, ids: frozenset(ids) | {"above"}),
        (pz_core.plan.planner, "make_plan", plan),
        (pz_core.plan.artifacts, "write_plan", None),
        (pz_core.run.execute, "execute", made.run_result),
    ):
        monkeypatch.setattr(module, name, made.step(name, value))
    return made


def refusal(code: str) -> PzErrors:
    return PzErrors([PzError(code, "no")])


def test_a_run_goes_through_its_steps_and_reports(pz: Any, steps: Steps) -> None:
    said = pz("run", "--fail-fast", "--full-refresh", "--no-lock-check", "--vars", '{"a": 1}')
    assert said.code == 0
    assert steps.calls == [
        "load_project",
        "compile_project",
        "select",
        "with_ancestors",
        "check_options",
        "dry_compile",
        "make_plan",
        "write_plan",
        "execute",
    ]
    executed = steps.arguments["execute"]
    assert executed["fail_fast"] and executed["full_refresh"]
    constants = steps.arguments["compile_project"]["constants"]
    assert (constants.run_id, constants.run_started_at) == (executed["run_id"], executed["started_at"])
    assert steps.arguments["make_plan"]["executed"] == {"a", "above"}
    assert steps.arguments["check_options"]["only"] == {"a", "above"}
    assert steps.arguments["load_project"]["vars_json"] == '{"a": 1}'
    assert steps.arguments["select"] == {"names": (), "expression": None, "all_": False, "gate": True}
    assert said.err == "warning PZ0135: loaded\n"
    assert said.out.splitlines()[0].endswith("0 succeeded, 0 failed, 0 skipped (.pz/runs/x/run_results.json)")
    assert said.out.splitlines()[-1] == "rows: read 0, staged 0, written 0, rejected 0 in 12ms"


@pytest.mark.parametrize("step", ["load_project", "compile_project", "check_options", "dry_compile", "make_plan"])
def test_a_refusal_of_any_step_ends_before_the_run(pz: Any, steps: Steps, step: str) -> None:
    steps.fails[step] = refusal("PZ0999")
    said = pz("run")
    assert said.code == 2 and said.out == "" and "error PZ0999: no\n" in said.err
    assert "execute" not in steps.calls


def test_an_engine_that_cannot_be_used_is_refused_before_the_run(pz: Any, steps: Steps) -> None:
    steps.registry.engine_fault = PzError("PZ0701", "cannot be used")
    said = pz("run")
    assert said.code == 2 and "error PZ0701" in said.err and "execute" not in steps.calls


def test_sql_that_does_not_bind_is_told_before_a_choice_that_is_refused(pz: Any, steps: Steps) -> None:
    steps.fails["select"] = refusal("PZ0215")
    steps.fails["dry_compile"] = refusal("PZ0401")
    said = pz("run")
    assert said.code == 2 and "PZ0401" in said.err and "PZ0215" not in said.err


def test_a_refused_choice_is_told_and_a_bare_run_checks_the_whole_project_first(pz: Any, steps: Steps) -> None:
    steps.fails["select"] = refusal("PZ0215")
    said = pz("run")
    assert said.code == 2 and "PZ0215" in said.err
    assert steps.arguments["check_options"]["only"] is None
    assert "make_plan" not in steps.calls


def test_a_name_that_is_not_there_is_told_rather_than_options_of_others(pz: Any, steps: Steps) -> None:
    steps.fails["select"] = refusal("PZ0210")
    steps.fails["check_options"] = refusal("PZ0305")
    said = pz("run", "typo")
    assert "PZ0210" in said.err and "PZ0305" not in said.err


def test_failed_nodes_are_errors_on_stderr_and_the_exit_code_is_the_runs(pz: Any, steps: Steps) -> None:
    steps.result = {
        "status": "completed_with_failures",
        "exit_code": 1,
        "errors": (PzError("PZ0501", "broke\nin two", where=Where(node="lake.x")),),
        "notices": (Notice("warning", "dup", "PZ0522"), Notice("warning", "dup", "PZ0522")),
        "nodes": (
            SimpleNamespace(kind="SourceLoad", status="success", accounting={"read": 7, "staged": 6, "rejected": 1}),
            SimpleNamespace(kind="SinkWrite", status="success", accounting={"staged": 6, "written": 5}),
            SimpleNamespace(kind="SinkWrite", status="failed", accounting=None),
        ),
        "swept": (2, 1024, 0),
    }
    said = pz("run")
    assert said.code == 1
    assert said.err.splitlines()[1:] == ["warning PZ0522: dup", "error PZ0501: broke in two (lake.x)"]
    lines = said.out.splitlines()
    assert ": 2 succeeded, 1 failed, 0 skipped (" in lines[0]
    assert lines[1] == "retention: removed 2 staging databases, freed 1 KB"
    assert lines[2].startswith("rows: read 7, staged 6, written 5, rejected 1 in ")


def test_in_json_mode_the_summary_goes_to_stderr_and_stdout_is_the_events(pz: Any, steps: Steps) -> None:
    said = pz("run", "--log-format", "JSON")
    assert said.code == 0 and said.out == ""
    assert "0 succeeded" in said.err and "rows: read" in said.err
    assert [observer.name for observer in steps.arguments["execute"]["observers"]] == ["ndjson"]


def test_plain_lines_where_stdout_is_no_terminal(pz: Any, steps: Steps) -> None:
    pz("run")
    assert [observer.name for observer in steps.arguments["execute"]["observers"]] == ["lines"]


def test_observers_of_plugins_listen_and_a_broken_one_is_told_and_left_out(pz: Any, steps: Steps) -> None:
    class Good:
        name = "good"

    def bad() -> None:
        raise RuntimeError("hunter2")

    steps.registry.observers = {"good": Good, "bad": bad, "gone": PzError("PZ0701", "cannot be imported")}
    said = pz("run")
    assert said.code == 0
    assert [observer.name for observer in steps.arguments["execute"]["observers"]] == ["lines", "good"]
    assert "warning PZ0701: cannot be imported" in said.err and "'bad'" in said.err
    assert "hunter2" not in said.err


@pytest.mark.parametrize("verb", ["run", "test"])
@pytest.mark.parametrize("step", ["load_project", "dry_compile", "make_plan"])
def test_a_stop_before_the_run_says_so_and_exits_3(pz: Any, steps: Steps, verb: str, step: str) -> None:
    steps.fails[step] = KeyboardInterrupt()
    said = pz(verb)
    assert said.code == 3 and "error: cancelled before any node started\n" in said.err
    assert "execute" not in steps.calls


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_during_setup_is_a_stop_like_any_other(pz: Any, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def terminate(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(pz_core.compile.dry, "dry_compile", terminate)
    said = pz("run")
    assert said.code == 3 and "before any node started" in said.err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_cancelled_run_is_told(pz: Any, steps: Steps) -> None:
    steps.result = {"status": "fatal", "exit_code": 3}
    said = pz("run")
    assert said.code == 3 and "note: the run was cancelled" in said.err


def test_test_takes_checks_and_nothing_of_the_gate(pz: Any, steps: Steps) -> None:
    assert pz("test", "--select", "x").code == 0
    assert steps.arguments["select"] == {"expression": "x"}
    assert "checks_with_ancestors" in steps.calls
    assert not steps.arguments["execute"]["full_refresh"]


def test_a_selection_without_checks_says_how_to_take_them(
    pz: Any, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pz_core.compile.select, "checks_with_ancestors", lambda graph, ids: frozenset())
    said = pz("test", "--select", "x")
    assert "note: --select takes no check; name+ takes a pipeline with its checks" in said.err


@pytest.mark.parametrize("argv", [["test", "name"], ["test", "--all"], ["test", "--full-refresh"]])
def test_test_takes_neither_names_nor_all_nor_full_refresh(pz: Any, steps: Steps, argv: list[str]) -> None:
    assert pz(*argv).code == 2 and steps.calls == []


def test_test_without_checks_makes_no_run(pz: Any, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pz_core.compile.select, "checks_with_ancestors", lambda graph, ids: frozenset())
    monkeypatch.setattr(pz_core.compile.select, "with_ancestors", lambda graph, ids: frozenset(ids))
    said = pz("test")
    assert said.code == 0 and "note: " in said.err and "execute" not in steps.calls


def test_wrong_usage_starts_nothing(pz: Any, steps: Steps) -> None:
    assert pz("run", "--log-format", "xml").code == 2
    assert steps.calls == []

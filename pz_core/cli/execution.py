"""What ``run`` and ``test`` share: prepare, execute the chosen nodes, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pz_core.cli import output
from pz_core.cli.failures import CancelledBeforeRun
from pz_core.cli.interrupts import stop_signals
from pz_core.cli.locks import check_lock
from pz_core.cli.prepare import open_graph
from pz_core.errors import Notice, PzError, PzErrors
from pz_core.render.stream import emit, is_interactive

if TYPE_CHECKING:
    from pz_core.compile.model import Graph
    from pz_core.contract.observer import Observer
    from pz_core.plan.model import Plan
    from pz_core.plugins import Registry
    from pz_core.run.execute import RunResult
    from pz_core.run.reuse import TakenOver

#: Chooses nodes of the graph.
Choice = Callable[["Graph"], "frozenset[str]"]


class Prepared(Struct, frozen=True):
    """All that is settled before a run directory exists; ``selected`` holds the ancestors of what was chosen too."""

    plan: Plan
    selected: frozenset[str]
    registry: Registry
    run_id: str
    started_at: str


@contextmanager
def before_any_node() -> Iterator[None]:
    """A stop in here comes before any node has started, and says so."""
    with stop_signals():
        try:
            yield
        except KeyboardInterrupt:
            raise CancelledBeforeRun from None


def prepare(
    project: Path, vars_json: str | None, choose: Choice, *, narrow: bool, skip_lock_check: bool = False
) -> Prepared:
    """Load, compile, check options, bind the SQL, select, look at the lock, plan. Leaves no run behind.

    Args:
        project: directory of the project.
        vars_json: the text of ``--vars``.
        choose: gives the nodes to run.
        narrow: whether the user named nodes; a choice that names nothing is then told before faults of options.
        skip_lock_check: run although the lock does not fit.

    Raises:
        PzErrors: all faults of the first step that finds any.
    """
    from pz_core.compile.dry import dry_compile
    from pz_core.compile.model import RunConstants
    from pz_core.compile.select import with_ancestors
    from pz_core.plan.options import check_options
    from pz_core.plan.planner import make_plan
    from pz_core.run.runid import mint

    now = datetime.now(UTC)
    run_id, started_at = mint(now), now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    graph, registry = open_graph(project, vars_json, RunConstants(run_id, started_at), keep=True)
    # Options are checked for the chosen nodes alone, yet a wrong choice must not hide SQL that does not bind:
    # so the choice is made first and its refusal raised last.
    effective: frozenset[str] | None = None
    refusal: PzErrors | None = None
    try:
        effective = with_ancestors(graph, choose(graph))
    except PzErrors as errors:
        refusal = errors
    if refusal is None or not narrow:
        output.tell_notices(check_options(graph, registry, only=effective))
    dry_compile(graph)
    if refusal is not None:
        raise refusal
    assert effective is not None  # either chosen or refused
    check_lock(graph, registry, skip=skip_lock_check)
    plan = make_plan(graph, registry, executed=effective)
    output.tell_notices(plan.notices)
    registry.load("engine", graph.project.engine.name)  # an engine that cannot be used is refused before there is a run
    return Prepared(plan, effective, registry, run_id, started_at)


def carry_out(
    prepared: Prepared,
    *,
    fail_fast: bool,
    full_refresh: bool,
    as_json: bool,
    advance: bool = True,
    taken_over: TakenOver | None = None,
) -> int:
    """Execute a prepared run, report it, and give the exit code. Without a node there is no run.

    Args:
        prepared: what :func:`prepare` made.
        fail_fast: stop at the first failed node.
        full_refresh: read as if nothing had been read before.
        as_json: events as NDJSON on stdout, the summary on stderr.
        advance: move watermarks at the end.
        taken_over: what a retry has from the run before it.
    """
    result = perform(
        prepared,
        fail_fast=fail_fast,
        full_refresh=full_refresh,
        as_json=as_json,
        advance=advance,
        taken_over=taken_over,
    )
    return 0 if result is None else result.exit_code


def perform(
    prepared: Prepared,
    *,
    fail_fast: bool,
    full_refresh: bool,
    as_json: bool,
    advance: bool = True,
    taken_over: TakenOver | None = None,
) -> RunResult | None:
    """Execute and report as :func:`carry_out` does, and give the result, ``None`` where there was nothing to run."""
    if not prepared.selected and not (taken_over and taken_over.carried):
        output.note("there is nothing to run")
        return None
    with before_any_node():
        from pz_core.plan.artifacts import write_plan
        from pz_core.run.execute import execute

        write_plan(prepared.plan)
        observers = [console(as_json), *plugin_observers(prepared.registry)]
    with stop_signals():
        result = execute(
            prepared.plan,
            prepared.selected,
            prepared.registry,
            run_id=prepared.run_id,
            started_at=prepared.started_at,
            fail_fast=fail_fast,
            full_refresh=full_refresh,
            observers=observers,
            advance=advance,
            taken_over=taken_over,
        )
    report(result, prepared, as_json=as_json)
    return result


def console(as_json: bool) -> Observer:
    """The observer that writes to stdout: NDJSON, a live tree on a terminal, else plain lines."""
    if as_json:
        from pz_core.render.ndjson import Ndjson

        return Ndjson()
    if is_interactive(os.environ, sys.stdout):
        from pz_core.render.live import Live

        return Live()
    from pz_core.render.lines import Lines

    return Lines()


def plugin_observers(registry: Registry) -> list[Observer]:
    """The observers that plugins bring. One that cannot be made is told and left out: it must not stop a run."""
    made: list[Observer] = []
    for name in registry.names("observer"):
        try:
            made.append(registry.load("observer", name)())
        except PzError as error:
            output.tell(Notice("warning", error.message, error.code, error.where, error.hint).render())
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything
            message = f"observer '{name}' could not be started and is left out: {type(error).__name__}"
            output.tell(Notice("warning", message, "PZ0701").render())
    return made


def report(result: RunResult, prepared: Prepared, *, as_json: bool) -> None:
    """Tell notices and errors on stderr, then the summary: on stdout, or on stderr where stdout is NDJSON."""
    from pz_core.render.summary import accounting_line, retention_line, summary_line

    output.tell_notices(result.notices)
    for error in result.errors:
        output.tell(error.render())
    if result.status == "fatal" and not result.errors:
        output.note("the run was cancelled; nodes that had not ended were skipped")
    statuses = [node.status for node in result.nodes]
    succeeded, failed, skipped = (statuses.count(status) for status in ("success", "failed", "skipped"))
    place = result.stored_in or shown_path(result.results_path)
    emit(summary_line(result.run_id, succeeded, failed, skipped, place), err=as_json)
    swept = retention_line(*result.swept) if result.swept is not None else None
    if swept:
        emit(swept, err=as_json)
    emit(accounting_line(totals(result), result.duration_ms), err=as_json)


def totals(result: RunResult) -> dict[str, int]:
    """Rows read and staged by sources, or passed straight on, written by sinks, rejected anywhere."""
    made = {"read": 0, "staged": 0, "passed": 0, "written": 0, "rejected": 0}
    sides = {"SourceLoad": ("read", "staged", "passed", "rejected"), "SinkWrite": ("written", "rejected")}
    for node in result.nodes:
        for word in sides.get(node.kind, ("rejected",)):
            made[word] += (node.accounting or {}).get(word, 0)
    return made


def shown_path(path: Path) -> str:
    """A path as short as it can be from here."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):
        return str(path)

"""``pz plan``: what a run would do, edge by edge, and why. Offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core.cli import output
from pz_core.cli.locks import check_lock
from pz_core.cli.options import all_option, json_option, lock_option, project_options, select_option
from pz_core.cli.prepare import open_graph
from pz_core.render.text import elapsed, plural

if TYPE_CHECKING:
    from pz_core.plan.model import MemoryBudget, NodePlan, Plan

_CHECK = "Check"
_SINK = "SinkWrite"


@click.command()
@click.argument("names", nargs=-1)
@project_options
@select_option
@all_option
@lock_option
@json_option
def plan(
    names: tuple[str, ...],
    project: Path,
    vars_json: str | None,
    expression: str | None,
    all_: bool,
    no_lock_check: bool,
    as_json: bool,
) -> None:
    """Say what a run would do with each edge, what it guarantees and what it may cost. Writes .pz/target/plan.json.

    The whole project is planned always; names, --select and --all say what to show.
    """
    from pz_core.plan.artifacts import write_plan
    from pz_core.plan.options import check_options
    from pz_core.plan.planner import make_plan

    graph, registry = open_graph(project, vars_json, keep=True)
    shown = executed = None
    if names or expression is not None or all_:
        from pz_core.compile.select import select, with_ancestors

        shown = select(graph, names=names, expression=expression, all_=all_)
        executed = with_ancestors(graph, shown)
    notices = check_options(graph, registry, only=executed)
    output.tell_notices(notices)
    check_lock(graph, registry, skip=no_lock_check)
    made = make_plan(graph, registry, executed=executed)
    output.tell_notices(made.notices)
    write_plan(made)
    visible = [node for node in made.nodes if shown is None or node.id in shown]
    hidden = len(made.nodes) - len(visible)
    if hidden:
        output.note(f"{plural(hidden, 'node')} outside the selection not shown; plan.json holds the whole plan")
    if as_json:
        every = [dict(n.as_dict()) for n in dict.fromkeys([*graph.notices, *notices, *made.notices])]
        output.say_json(plan_document(made, visible, every))
    else:
        output.say_all(plan_lines(made, visible))
        if made.budget.duckdb_threads_disclaimer:
            output.note(made.budget.duckdb_threads_disclaimer)


def plan_document(made: Plan, visible: list[NodePlan], notices: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan as one JSON document: what ``plan.json`` holds, policies and limits, and what was noticed."""
    from pz_core.plan.artifacts import plan_as_dict

    document = plan_as_dict(made)
    ids = {node.id for node in visible}
    document["nodes"] = [node for node in document["nodes"] if node["id"] in ids]
    document["retry"] = {
        node.name: {
            "maxAttempts": node.retry.max_attempts,
            "baseDelayMs": node.retry.base_delay_ms,
            "maxDelayMs": node.retry.max_delay_ms,
        }
        for node in visible
        if node.retry is not None
    }
    document["maxConcurrency"] = dict(made.max_concurrency)
    document["notices"] = notices
    return document


def plan_lines(made: Plan, visible: list[NodePlan]) -> list[str]:
    """The plan as text: the table, what each sink guarantees, memory, retries and limits."""
    shown = [node for node in visible if node.kind != _CHECK]
    rows = [(node.strategy, node.name, f"{node.reason}{_pushed(node)}{_refused(node)}") for node in shown]
    lines = output.table(rows, [13, 24])
    lines += [
        f"decided at run: {node.name} {topic}: {rule}" for node in shown for topic, rule in node.decided_at_run.items()
    ]
    lines += [
        f"guarantee: {node.name} {node.guarantee}" + (f" ({node.on_retry})" if node.on_retry else "")
        for node in shown
        if node.kind == _SINK and node.guarantee
    ]
    lines += _budget_lines(made.budget)
    lines += _retry_lines(made, shown)
    lines += [f"max_concurrency: {name} {limit}" for name, limit in made.max_concurrency.items()]
    return lines


def _pushed(node: NodePlan) -> str:
    parts = []
    if node.columns_pushed is not None:
        parts.append(plural(len(node.columns_pushed), "column"))
    if node.predicate_pushed:
        parts.append("filter")
    return f" [pushed: {' + '.join(parts)}]" if parts else ""


def _refused(node: NodePlan) -> str:
    return f" [would be refused: {node.refusal.code}]" if node.refusal is not None else ""


def _budget_lines(budget: MemoryBudget) -> Iterator[str]:
    duckdb = _gigabytes(budget.duckdb_bytes) if budget.duckdb_bytes is not None else "unset"
    why = f" ({budget.duckdb_disclaimer})" if budget.duckdb_disclaimer else ""
    yield (
        f"memory budget: ~{_gigabytes(budget.total_bytes)} (duckdb {duckdb}{why} "
        f"+ channels {_gigabytes(budget.channel_bytes)} + overhead {budget.fixed_overhead_bytes // 1024**2}MB)"
    )


def _gigabytes(number: int) -> str:
    return f"{number / 1024**3:.2f} GB"


def _retry_lines(made: Plan, shown: list[NodePlan]) -> Iterator[str]:
    """One line for each effective policy that somebody declared."""
    for node in shown:
        policy = node.retry
        if policy is None or not _declares_retry(made, node):
            continue
        yield (
            f"retry: {node.name} at most {policy.max_attempts} attempts, first after {elapsed(policy.base_delay_ms)}, "
            f"never later than {elapsed(policy.max_delay_ms)}"
        )


def _declares_retry(made: Plan, node: NodePlan) -> bool:
    declared = made.graph.node(node.id)
    if getattr(declared, "retry", None) is not None:
        return True
    connection = made.graph.project.connections.get(getattr(declared, "connection", ""))
    return connection is not None and connection.retry is not None

"""``plan.json``: a contract with schedulers and pages; fields are only ever added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pz_core.plan.model import NodePlan, Plan
from pz_core.values.atomic import write_whole


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON-ready data. Holds no SQL, no secret and no predicate."""
    budget = plan.budget
    return {
        "version": 1,
        "nodes": [_node(plan, node) for node in plan.nodes],
        "memoryBudget": {
            "duckdbBytes": budget.duckdb_bytes,
            "duckdbDisclaimer": budget.duckdb_disclaimer,
            "channelBytes": budget.channel_bytes,
            "fixedOverheadBytes": budget.fixed_overhead_bytes,
            "totalBytes": budget.total_bytes,
            "duckdbThreadsDisclaimer": budget.duckdb_threads_disclaimer,
        },
    }


def write_plan(plan: Plan) -> Path:
    """Write ``.pz/target/plan.json``, whole.

    Raises:
        OSError: if the folder cannot be written.
    """
    path = plan.graph.project.dot_pz / "target" / "plan.json"
    write_whole(path, json.dumps(plan_as_dict(plan), indent=2, ensure_ascii=False) + "\n")
    return path


def _node(plan: Plan, node: NodePlan) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": node.id,
        "kind": node.kind,
        "name": node.name,
        "strategy": node.strategy,
        "partitions": node.partitions,
        "reason": node.reason,
    }
    if node.columns_pushed is not None or node.predicate_pushed:
        made["columns_pushed"] = None if node.columns_pushed is None else list(node.columns_pushed)
        made["predicate_pushed"] = node.predicate_pushed
    tier = getattr(node.task, "tier", None)
    for key, value in (
        ("tier", tier),
        ("readShape", node.read_shape),
        ("guarantee", node.guarantee),
        ("onRetry", node.on_retry),
    ):
        if value is not None:
            made[key] = value
    if node.passes_into is not None:
        made["passesInto"] = node.passes_into.sink
    if node.decided_at_run:
        made["decidedAtRun"] = dict(node.decided_at_run)
    if node.refusal is not None:
        made["refusal"] = {"code": node.refusal.code, "message": node.refusal.message}
    return made

"""``pz schema accept``: the columns that the latest run saw become the accepted ones, without asking any source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.contract.state import RunStore
from pz_core.errors import Problems
from pz_core.plugins import Registry
from pz_core.project.state_only import load_state_config
from pz_core.run.drift import SCHEMAS, Change, Observed, changes
from pz_core.run.history import list_runs
from pz_core.run.state import open_state
from pz_core.run.store import stored_history
from pz_core.values import Column


class Accepted(Struct, frozen=True):
    """A dataset whose columns were accepted, and what had changed."""

    dataset: str
    changes: tuple[Change, ...]


def accept(root: Path, targets: Sequence[str]) -> tuple[Accepted, ...]:
    """Accept what the latest run saw.

    Args:
        root: the project's folder; the project need not load.
        targets: datasets (``connection.entity``); all that differ without any.

    Returns:
        The datasets that had changed; others are left as they are.

    Raises:
        PzErrors: PZ0127 for each target that the latest run saw nothing of; faults of ``state:``.
        PzError: what the store says.
    """
    with stored_history(root) as history:
        seen = observed_by_latest_run(root, history.store)
    problems = Problems()
    for target in targets:
        if target not in seen:
            problems.error(
                "PZ0127",
                f"the latest run recorded no columns of {target}",
                hint="run it first with on_source_drift: warn or fail; a dataset with columns: has nothing to accept",
            )
    problems.raise_if_any()
    config, _ = load_state_config(root)
    backend = open_state(config, root, Registry())
    try:
        made: list[Accepted] = []
        for dataset in sorted(dict.fromkeys(targets) if targets else seen):
            entry = backend.read(SCHEMAS, dataset)
            found = changes({} if entry is None else entry.payload, seen[dataset])
            if found:
                backend.write(SCHEMAS, dataset, seen[dataset].payload(), None if entry is None else entry.version)
                made.append(Accepted(dataset, found))
        return tuple(made)
    finally:
        backend.close()


def observed_by_latest_run(root: Path, store: RunStore | None = None) -> dict[str, Observed]:
    """What the newest run that can be read recorded of datasets without a contract."""
    record = next((run.record for run in list_runs(root, store) if run.record is not None), None)
    nodes = () if record is None else record.nodes
    return {made.dataset: made for node in nodes if (made := _observed(node.raw)) is not None}


def _observed(raw: Mapping[str, Any]) -> Observed | None:
    found = raw.get("observed_schema")
    if not isinstance(found, Mapping) or not isinstance(found.get("columns"), list):
        return None
    columns = tuple(Column(str(c["name"]), str(c["type"])) for c in found["columns"])
    return Observed(str(found.get("dataset")), columns, str(found.get("hintsHash")))

"""What a retry takes over from the run before it: rows in staging, outputs that are written, values to store.

Sources: engine.md 1.12, DECISIONS 10. What a read covered is recorded with its result (``read``), because a node's id
says what was declared and not what the reader's SQL let the read leave out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from pz_core.compile.model import Graph, Incremental, SourceNode
from pz_core.contract.connector import CursorBounds
from pz_core.contract.engine import Earlier, LandResult, LandTask, NotReusable, Reuse
from pz_core.errors import Notice, Where
from pz_core.run.feeds import Candidate, token_digest
from pz_core.run.incremental import IncrementalReads
from pz_core.run.results import NodeResult
from pz_core.run.state import Stored
from pz_core.values import canonical_json

REUSED = "reused"
CARRIED_FORWARD = "carried_forward"
#: Of an output whose target had the rows before, by the ledger that it keeps.
ALREADY_DELIVERED = "already_delivered"


class EarlierRead(Struct, frozen=True):
    """A read of an earlier run whose rows are still in its staging file.

    Args:
        reuse: where, and how many.
        facts: what the read covered, as recorded.
        base: the watermark that it started from; ``None`` if it started from nothing.
        watermark: the candidate that it recorded.
        caught_up: as recorded.
        observed_schema: as recorded.
        feed: of a feed: where the read ended.
    """

    reuse: Reuse
    facts: Mapping[str, Any] | None = None
    base: Stored | None = None
    watermark: Mapping[str, Any] | None = None
    caught_up: bool | None = None
    observed_schema: Mapping[str, Any] | None = None
    feed: Candidate | None = None


class TakenOver(Struct, frozen=True):
    """All that a retry takes over.

    Args:
        reads: by the node's id; the engine may find one unusable, then the node reads its source.
        carried: results that are recorded as they are; nothing is done for them.
        begun: reads that failed midway, by the node's id: what is whole of them is taken.
        deliveries: deliveries that broke off, by the node's id: they go on where their target allows it.
    """

    run_id: str
    reads: Mapping[str, EarlierRead] = field(default_factory=dict)
    carried: tuple[NodeResult, ...] = ()
    begun: Mapping[str, Earlier] = field(default_factory=dict)
    deliveries: Mapping[str, tuple[Earlier, ...]] = field(default_factory=dict)


def read_facts(task: LandTask, incremental: Incremental | None, base: Stored | None) -> dict[str, Any] | None:
    """What a read covers beyond what its node's id says; ``None`` for all columns and all rows.

    Holds no predicate and no bound, only digests of them.

    Args:
        task: as planned.
        incremental: how the dataset is read, if incrementally.
        base: the watermark that the read starts from.
    """
    made: dict[str, Any] = {}
    hints = task.read.hints
    if hints.columns is not None:
        made["columns"] = list(hints.columns)
    if hints.predicate is not None:
        made["predicateHash"] = _digest([hints.predicate, {c: list(n) for c, n in hints.needs.items()}])
    if incremental is not None:
        made["boundsHash"] = _digest(
            [incremental.cursor, [[bound.op, bound.expression] for bound in incremental.bounds]]
        )
        made["from"] = None if base is None else {"cursor": base.cursor, "type": base.type, "value": base.value}
    if task.feed:
        made["feed"] = {"fromHash": token_digest(task.read.token)}
    return made or None


def lacks(recorded: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> str | None:
    """Why rows of a read that covered ``recorded`` are not enough where ``wanted`` is asked for; ``None`` if they are.

    In doubt they are not.
    """
    have, need = recorded or {}, wanted or {}
    if ("feed" in have) != ("feed" in need):
        return "it is read in another way now"
    if have.get("boundsHash") != need.get("boundsHash"):
        return "it is not known to be the slice that watermark() or sync: asks for now"
    if "predicateHash" in have and have["predicateHash"] != need.get("predicateHash"):
        return "rows were left out that are asked for now"
    if "columns" not in have:
        return None
    columns, asked = have["columns"], need.get("columns")
    if not isinstance(columns, list) or asked is None or not _names(asked) <= _names(columns):
        return "columns were left out that are asked for now"
    return None


def _names(columns: Iterable[object]) -> frozenset[str]:
    return frozenset(str(name).lower() for name in columns)


def ancestry(graph: Graph, id: str) -> str:
    """A digest of everything above a node: ids do not depend on each other, so a node's own says nothing of it."""
    return _digest(sorted(graph.ancestors(id)))


def reuse_read(
    earlier: EarlierRead,
    source: SourceNode,
    task: LandTask,
    reads: IncrementalReads | None,
    land: Callable[[LandTask], LandResult],
) -> LandResult | Notice:
    """Copy the rows of an earlier read.

    Args:
        earlier: what to copy.
        source: the dataset.
        task: as planned.
        reads: told of the rows and of where they start, so that SQL sees the slice that was read.
        land: what the engine does with a task.

    Returns:
        The result, or a note why the source has to be read after all.
    """
    cursor = None if source.incremental is None else CursorBounds(source.incremental.cursor)
    try:
        landed = land(replace(task, reuse=earlier.reuse, slice=cursor))
    except NotReusable as error:
        return not_reused(source, str(error))
    if not landed.reused:
        return not_reused(source, "this engine cannot copy it")
    if source.incremental is not None:
        if reads is None or landed.cursor is None:
            return not_reused(source, "this engine does not tell what its cursor holds")
        reads.remember(source.dataset, landed.cursor, earlier.base)
    return landed


def not_reused(source: SourceNode, why: str) -> Notice:
    """The note about rows that are read again although an earlier run has staged them."""
    message = f"{source.dataset}: what the earlier run staged is not reused, the source is read: {why}"
    return Notice("note", message, where=Where(node=source.name))


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]

"""Watermarks and tokens that a run could not store although it had delivered the rows (PZ0527): a retry stores them.

Source: DECISIONS 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pz_core.compile.cursors import canonical_cursor, later
from pz_core.compile.model import Graph, SourceNode
from pz_core.contract.state import StateEntry
from pz_core.errors import Notice
from pz_core.run.earlier import SUCCESS, EarlierRun, StoredState, mapping, token_moved, told
from pz_core.run.state import family, stored_watermark


def unstored(
    graph: Graph, effective: frozenset[str], earlier: EarlierRun, stored: StoredState
) -> tuple[dict[str, SourceNode], list[Notice]]:
    """Datasets whose rows were delivered and whose watermark was not stored (PZ0527), and notes on those left out."""
    record = earlier.record
    # A file without the list, and nothing that failed: then the state is all that can have gone wrong.
    all_of_them = not record.not_stored and all(node.status == SUCCESS for node in record.nodes)
    due: dict[str, SourceNode] = {}
    notices: list[Notice] = []
    for node in graph.nodes:
        if not isinstance(node, SourceNode) or node.id in effective:
            continue
        if not (all_of_them or node.dataset in record.not_stored):
            continue
        recorded = earlier.done(node)
        watermark = None if recorded is None else mapping(recorded.raw.get("watermark"))
        feed = None if recorded is None else earlier.tokens.get(node.id)
        named = node.dataset in record.not_stored
        what = "watermark" if watermark is not None or feed is None else "token"
        if recorded is None and named:
            notices.append(told(f"{node.dataset} has changed since; its recorded {what} is not stored", node.name))
        if recorded is None or (watermark is None and feed is None):
            continue
        against = earlier.moved(node.connection)
        if against is None and watermark is not None and not _is_above(watermark, stored.watermarks.get(node.dataset)):
            against = "what is stored is at or above it"
        if against is None and feed is not None and not record.full_refresh:
            facts = mapping(recorded.raw.get("read"))
            against = token_moved(facts, stored.tokens.get(node.dataset))
        if against is None:
            due[node.id] = node
        else:
            notices.append(
                told(f"{node.dataset}: the {what} recorded by run {record.run_id} is dropped: {against}", node.name)
            )
    return due, notices


def _is_above(watermark: Mapping[str, Any], entry: StateEntry | None) -> bool:
    now = None if entry is None else stored_watermark(entry)
    if now is None:
        return True
    kind = str(watermark.get("type"))
    value = canonical_cursor(kind, str(watermark.get("value")))
    if value is None or family(kind) != family(now.type):
        return False
    return later(now.type, value, now.value)

"""Which outputs keep a ledger, and what that promises: ``duplicates: 'refuse'``.

Source: DECISIONS 4. A ledger says up to where an output has the rows of a dataset, so it can only speak of reads that
begin where the last one ended.
"""

from __future__ import annotations

import re
from typing import Any

from pz_core.compile.model import Graph, Incremental, SinkNode, SourceNode
from pz_core.compile.rendered import sentinel
from pz_core.contract.ledger import LedgerClaim
from pz_core.errors import PzError

#: Functions whose value is the watermark or lies above it, as long as the watermark is the first thing in them.
_AT_LEAST = ("coalesce", "ifnull", "greatest")
_CAST = re.compile(r"(?:try_)?cast\((.*) as timestamp(?: with time zone|tz)?\)|(.*)::timestamp(?:tz)?", re.DOTALL)


def keeps_ledger(node: SinkNode, strategy: Any) -> bool:
    """Whether an output asks a ledger: one whose strategy adds a batch again needs no repetition."""
    return node.duplicates == "refuse" and not strategy.traits.idempotent


def ledger_claim(graph: Graph, node: SinkNode, strategy: Any) -> LedgerClaim | None:
    """What an output asks of its target's ledger, as far as it is known before a run; ``None`` if it has none."""
    return LedgerClaim(graph.project.name, node.name) if keeps_ledger(node, strategy) else None


def incremental_above(graph: Graph, node: SinkNode) -> tuple[SourceNode, ...]:
    """The incremental datasets that an output's rows come from, by name."""
    above = (graph.node(id) for id in graph.ancestors(node.id))
    found = [source for source in above if isinstance(source, SourceNode) and source.incremental is not None]
    return tuple(sorted(found, key=lambda source: source.dataset))


def looks_back(graph: Graph, node: SinkNode, strategy: Any) -> PzError | None:
    """PZ0214 for a ledger below a read that takes rows again on purpose, which no ledger tells from new ones."""
    if not keeps_ledger(node, strategy):
        return None
    again = [s.dataset for s in incremental_above(graph, node) if s.incremental and not _goes_on(s, s.incremental)]
    if not again:
        return None
    return PzError(
        "PZ0214",
        f"{node.name}: duplicates: 'refuse' cannot hold with strategy '{node.strategy}', because the read of "
        f"{', '.join(again)} takes rows again that it has read before (>= or a look back from watermark())",
        where=node.where,
        hint="compare with > watermark() alone, or use strategy: 'merge' with keys, or accept repeated rows with "
        "duplicates: 'accept'",
    )


def _goes_on(source: SourceNode, incremental: Incremental) -> bool:
    """Whether no row of a read can lie at or below the watermark; one such floor is enough, since all of them hold."""
    if incremental.sync is not None:
        return True
    mark = re.escape(sentinel(source.connection, source.entity).lower())
    return any(bound.op == ">" and _is_mark(bound.expression, mark) for bound in incremental.bounds)


def _is_mark(expression: str, mark: str) -> bool:
    """Whether an expression is never below the watermark, told from its text; in doubt it may be."""
    text = " ".join(expression.lower().split())
    while True:
        inner = _unwrapped(text)
        if inner == text:
            break
        text = inner
    if re.fullmatch(mark, text):
        return True
    call = re.fullmatch(r"(\w+) ?\((.*)\)", text, re.DOTALL)
    if call is None or call[1] not in _AT_LEAST or not _balanced(call[2]):
        return False
    first = _first_argument(call[2])
    return first != call[2] and _is_mark(first, mark)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and _balanced(text[1:-1]):
        return text[1:-1]
    cast = _CAST.fullmatch(text)
    if cast is None:
        return text
    inner = cast[1] if cast[1] is not None else cast[2]
    return inner if _balanced(inner) else text


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def _first_argument(text: str) -> str:
    depth = 0
    for index, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            return text[:index].strip()
    return text

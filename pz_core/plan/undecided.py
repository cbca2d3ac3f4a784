"""What a plan cannot know, since nobody declared the types of a dataset: for each such thing a run's rule.

The choice that a run made stands under the same topic in ``run_results.json``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.compile.model import SourceNode
from pz_core.contract.connector import NativeScan, ReadSpec

_INFERRED = "found in the data: each column gets the narrowest type that holds every one of its values exactly"
_TOLD = "as the place describes the columns"
_PUSHED = (
    "of the pushed columns those are read that exist; the filter goes along where each column in it compares with its "
    "constant by type, without a cast of the column"
)
_CURSOR = "the type that the cursor column lands with"


def decided_at_run(node: SourceNode, spec: ReadSpec, scan: NativeScan | None) -> Mapping[str, str]:
    """The rules of one read by topic: ``access``, ``types``, ``cursor``, ``pushdown``.

    Args:
        node: the read.
        spec: as planned, with its hints.
        scan: what the connector offers DuckDB, ``None`` in the universal tier.
    """
    made: dict[str, str] = {}
    if scan is not None and scan.rule is not None:
        made["access"] = scan.rule
    if node.columns is None:
        made["types"] = _INFERRED if scan is not None and scan.schema_inferred else _TOLD
        if node.incremental is not None:
            made["cursor"] = _CURSOR
    # A contract names columns that an entity of a place with types of its own may still lack or spell differently.
    if spec.hints.predicate is not None or spec.hints.columns is not None:
        made["pushdown"] = _PUSHED
    return made

"""Node ids: 16 hex digits of SHA-256 over what a node does, so that the same declaration has the same id anywhere.

Ids do not depend on each other: an edit upstream leaves the ids downstream as they are. ``retry``, ``sample_values``,
positions, interpolated values of connections and what SQL declares about increments stay out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pz_core.contract.check import CheckDefinition
from pz_core.project.model import ReadDeclaration, SyncConfig
from pz_core.values import canonical_json


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def source_id(connection: str, entity: str, declaration: ReadDeclaration, sync: SyncConfig | None) -> str:
    """Id of a read.

    Args:
        connection: name of the connection.
        entity: name of the entity, as spelled.
        declaration: its read side, with options and contract.
        sync: its ``sync`` block in canonical form; what ``watermark()`` declares is part of the reader's SQL instead.
    """
    parts = [
        "source-load",
        connection,
        entity,
        canonical_json(declaration.options),
        canonical_json(declaration.columns or None),
    ]
    if declaration.columns and declaration.options.get("header") is False:
        # Without a header a contract binds by position, so its order is part of what it says.
        parts.append(canonical_json(list(declaration.columns)))
    if sync is not None:
        named = {name: getattr(sync, name) for name in ("mode", "cursor", "max_window", "initial", "until", "slot")}
        parts.append(canonical_json({k: v for k, v in named.items() if v is not None}))
    return _digest(parts)


def pipeline_id(name: str, materialization: str, sql: str) -> str:
    """Id of a pipeline; ``sql`` is the assembled query, rendered with the constants that every run shares."""
    return _digest(["pipeline", name, materialization, sql])


def check_id(pipeline: str, definition: CheckDefinition) -> str:
    """Id of a check."""
    identity = [list(definition.columns), definition.options, definition.name]
    return _digest(["check", pipeline, definition.kind, canonical_json(identity)])


def sink_id(
    connection: str,
    entity: str,
    pipeline: str,
    *,
    strategy: str,
    schema_policy: str,
    keys: tuple[str, ...],
    duplicates: str | None,
    on_delete: str | None,
    options: object,
) -> str:
    """Id of a write."""
    own = canonical_json({"keys": list(keys), "duplicates": duplicates, "on_delete": on_delete})
    return _digest(["sink-write", connection, entity, pipeline, strategy, schema_policy, own, canonical_json(options)])

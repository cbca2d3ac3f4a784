"""How a run's connections were set up, and what variables it was given: what ids of nodes do not say.

A node's id leaves out interpolated values of its connection, so that it is the same on every machine. Whether rows and
results of an earlier run still belong to the same places is told by these digests instead. No secret goes into one:
a password may be renewed without the place becoming another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.errors import PzError
from pz_core.plan.connections import typed_options
from pz_core.plugins import Registry
from pz_core.project.model import Project
from pz_core.values import canonical_json


def connection_fingerprint(project: Project, name: str, registry: Registry) -> str | None:
    """A digest of the connector and of all options of a connection that are no secrets, as they are resolved now.

    Returns:
        16 hex digits; ``None`` if the connection is gone or its connector cannot be used.
    """
    connection = project.connections.get(name)
    if connection is None:
        return None
    try:
        declared = registry.load("connector", connection.connector).connection_options
    except PzError:
        return None
    options: dict[str, Any] = {}
    for key, value in typed_options(declared, connection.config).items():
        option = declared.get(key)
        if option is None or not option.secret:
            options[key] = value
    return _digest([connection.connector, options])


def connections_of(graph: Graph, ids: Iterable[str], registry: Registry) -> dict[str, str]:
    """Fingerprints of the connections that nodes use, by name; one that cannot be made is left out."""
    nodes = (graph.node(id) for id in ids)
    names = sorted({node.connection for node in nodes if isinstance(node, (SourceNode, SinkNode))})
    made = {name: connection_fingerprint(graph.project, name, registry) for name in names}
    return {name: found for name, found in made.items() if found is not None}


def vars_hash(project: Project) -> str | None:
    """A digest of the values of ``vars:``; ``None`` for a project without any."""
    return _digest(project.vars) if project.vars else None


def _digest(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]

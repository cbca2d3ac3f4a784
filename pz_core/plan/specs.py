"""What connectors are asked: the read of a source node and the write of a sink node, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pz_core.compile.model import RunConstants, SinkNode, SourceNode
from pz_core.contract.capture import CaptureSpec
from pz_core.contract.connector import CursorBounds, ReadSpec, WriteSpec
from pz_core.contract.options import OptionSet
from pz_core.plan.connections import typed_options
from pz_core.values import Value

#: A calendar token of a templated path; ``{key}`` and other braces are none.
_TOKEN = re.compile(r"\{(?:yyyy|yy|MM|dd|HH|mm)\}")


def read_spec(node: SourceNode, target: Any, project: str) -> ReadSpec:
    """The read of a node with its cursor, if it has one, and without bounds: those are known at run time only."""
    capture = None
    if node.sync is not None and node.sync.mode == "cdc":
        capture = CaptureSpec(project, node.sync.slot)
    bounds = None
    if node.incremental is not None:
        bounds = CursorBounds(node.incremental.cursor, node.incremental.type)
    options = typed_options(target.read_options, node.options)
    return ReadSpec(node.entity, options, node.columns, bounds, capture=capture)


def split_options(node: SinkNode, target: Any, strategy: Any) -> tuple[dict[str, Value], dict[str, Value]]:
    """A sink's options, the connector's and the strategy's apart. What neither knows stays with the connector's."""
    own: OptionSet = strategy.options
    mine = {name: value for name, value in node.options.items() if own.get(name) is not None}
    rest = {name: value for name, value in node.options.items() if name not in mine}
    return typed_options(target.write_options, rest), typed_options(own, mine)


def write_spec(node: SinkNode, options: Mapping[str, Value], load_mode: str, constants: RunConstants) -> WriteSpec:
    """The write of a node, for the run that the graph was compiled for."""
    return WriteSpec(
        entity=node.entity,
        options=options,
        strategy=node.strategy,
        load_mode=load_mode,
        keys=node.keys,
        schema_policy=node.schema_policy,
        on_delete=node.on_delete,
        run_id=constants.run_id,
        node_id=node.id,
    )


def has_calendar_token(options: Mapping[str, Value]) -> bool:
    """Whether ``path`` holds a calendar token."""
    path = options.get("path")
    return isinstance(path, str) and _TOKEN.search(path) is not None

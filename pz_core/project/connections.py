"""``connections.yml``: places, and the entities in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pz_core.contract.options import RESERVED_CONNECTION_KEYS
from pz_core.errors import Problems, Where
from pz_core.plugins.registry import Registry
from pz_core.project.blocks import Place, read_rate_limit, read_retry
from pz_core.project.declarations import READ_KEYS, WRITE_KEYS, read_declaration, write_declaration
from pz_core.project.interpolate import interpolate, references, variables
from pz_core.project.model import Connection, Entity, ReadDeclaration, WriteDeclaration
from pz_core.project.names import entity_fault, is_name, legal_name
from pz_core.project.retired import refuse_outputs
from pz_core.project.shapes import did_you_mean, shown_node, whole
from pz_core.project.yaml import Block, Field, Node, Text, read_yaml, to_text, to_value
from pz_core.values import Value

FILE = "connections.yml"


def load_connections(
    root: Path, environ: Mapping[str, str], registry: Registry, problems: Problems, *, only: str | None = None
) -> dict[str, Connection] | None:
    """All connections of a project, by name in the order of the file.

    Args:
        root: the project's folder.
        environ: variables for ``${NAME}``.
        registry: what is installed.
        problems: gets every fault and warning.
        only: read just this connection, for a verb that needs no other.

    Returns:
        The connections, none without a file; ``None`` if the file cannot be read at all.
    """
    path = root / FILE
    if not os.path.lexists(path):  # no exists(): a link that leads nowhere is told as what it is
        return {}
    block = read_yaml(path, FILE, problems)
    if block is None:
        return None
    made: dict[str, Connection] = {}
    for name, entry in block.fields.items():
        if only is not None and name != only:
            continue
        if name == "outputs" and not _is_connection(entry.node):
            refuse_outputs(block, FILE, problems)
            continue
        connection = _Reader(entry, environ, registry, problems).read()
        if connection is not None:
            made[name] = connection
    return made


def names_in(connections: Mapping[str, Connection]) -> set[str]:
    """What messages call connections and what is in them: names, connectors, entities and the parts of these."""
    made: set[str] = set()
    for connection in connections.values():
        made |= {connection.name, connection.connector}
        for entity in connection.entities:
            made |= {entity, *entity.split(".")}
    return made


def _is_connection(node: Node) -> bool:
    return isinstance(node, Block) and isinstance(node.get("connector"), Text)


def _inside(entry: Field) -> Place:
    """Gives the place of a key inside a block."""

    def place(key: str | None) -> Where:
        node = entry.node
        return Where(FILE, node.line_of(key) if key is not None and isinstance(node, Block) else entry.line)

    return place


class _Reader:
    """Reads one connection."""

    def __init__(self, entry: Field, environ: Mapping[str, str], registry: Registry, problems: Problems) -> None:
        self._entry = entry
        self._name = entry.key
        self._environ = environ
        self._registry = registry
        self._problems = problems

    def read(self) -> Connection | None:
        name = self._name
        if not is_name(name) or "__" in name:
            self._problems.error(
                "PZ0136",
                f"'{name}' cannot name a connection",
                where=Where(FILE, self._entry.line),
                hint=f"use letters, digits and single underscores, no digit first: {legal_name(name)}",
            )
        block = self._entry.node
        if not isinstance(block, Block):
            self._problems.error(
                "PZ0101",
                f"connection '{name}' must be a mapping of keys to values",
                where=Where(FILE, self._entry.line),
                hint=f"write {name}: {{connector: <connector>}} and the connector's own keys beside it",
            )
            return None
        connector = self._connector(block)
        lead = f"connection '{name}'"
        limit = retry = most = None
        for key, entry in block.fields.items():
            if entry.node.blank:
                continue
            where = Where(FILE, entry.line)
            if key == "max_concurrency":
                most = whole(entry.node, 1)
                if most is None:
                    self._problems.error(
                        "PZ0122",
                        f"{lead}: max_concurrency must be a whole number from 1 up, got {shown_node(entry.node)}",
                        where=where,
                        hint="write max_concurrency: 4, or remove it for no bound",
                    )
            elif key == "rate_limit":
                limit = read_rate_limit(to_value(entry.node), lead=lead, where=_inside(entry), problems=self._problems)
            elif key == "retry":
                retry = read_retry(to_value(entry.node), lead=lead, where=_inside(entry), problems=self._problems)
        config = {
            key: interpolate(entry.node, self._environ, path=f"{name}.{key}", file=FILE, problems=self._problems)
            for key, entry in block.fields.items()
            if key not in RESERVED_CONNECTION_KEYS
        }
        entities = self._entities(block)
        return Connection(
            name,
            connector,
            config,
            entities,
            most,
            limit,
            retry,
            Where(FILE, self._entry.line),
            lines={key: entry.line for key, entry in block.fields.items()},
            variables=frozenset(
                name
                for key, entry in block.fields.items()
                if key not in RESERVED_CONNECTION_KEYS
                for name in variables(entry.node)
            ),
        )

    def _connector(self, block: Block) -> str:
        node = block.get("connector")
        if isinstance(node, Text) and not node.blank and node.text.strip():
            return node.text.strip()
        near = did_you_mean("connector", [key for key in block.fields if key not in RESERVED_CONNECTION_KEYS])
        self._problems.error(
            "PZ0101",
            f"connection '{self._name}' does not name its connector",
            where=Where(FILE, block.line_of("connector") if node is not None else self._entry.line),
            hint=f"{near}add connector: followed by the name of a connector, such as localfiles or postgres",
        )
        return ""

    # --- entities -----------------------------------------------------------------------------------------------

    def _entities(self, block: Block) -> dict[str, Entity]:
        node = block.get("entities")
        if node is None or node.blank:
            return {}
        for path, reference, line in references(node):
            self._problems.warn(
                "PZ0133",
                f"connection '{self._name}': entities.{path} holds {reference}, which is not replaced under entities:",
                where=Where(FILE, line),
                hint="move the option to the connection, or read the variable in the pipeline with env()",
            )
        if not isinstance(node, Block):
            self._problems.error(
                "PZ0101",
                f"connection '{self._name}': entities must be a mapping of names, got {shown_node(node)}",
                where=Where(FILE, block.line_of("entities")),
                hint="write entities: {<entity>: {read: {…}, write: {…}}}",
            )
            return {}
        return {name: self._entity(entry) for name, entry in node.fields.items()}

    def _entity(self, entry: Field) -> Entity:
        where = Where(FILE, entry.line)
        lead = f"connection '{self._name}', entity '{entry.key}'"
        fault = entity_fault(entry.key)
        if fault:
            self._problems.error(
                "PZ0344",
                f"{lead}: the name is not valid: {fault}",
                where=where,
                hint="spell it as the remote system does: public.orders",
            )
        node = entry.node
        if node.blank:
            return Entity(entry.key, where=where)
        if not isinstance(node, Block):
            self._problems.error(
                "PZ0101",
                f"{lead} must hold read: and write:, got {shown_node(node)}",
                where=where,
                hint="write read: {…} for how it is read, write: {…} for how it is written",
            )
            return Entity(entry.key, where=where)
        for key, other in node.fields.items():
            if key not in ("read", "write"):
                self._problems.error(
                    "PZ0101",
                    f"{lead} has no key '{key}'",
                    where=Where(FILE, other.line),
                    hint=f"{did_you_mean(key, ('read', 'write'))}an entity holds read: and write:",
                )
        subject = f"{self._name}.{entry.key}"
        read: ReadDeclaration | None = None
        write: WriteDeclaration | None = None
        if "read" in node.fields:
            values, lines = self._side(node.fields["read"], lead, READ_KEYS)
            read = read_declaration(
                values,
                subject=subject,
                where=Where(FILE, node.line_of("read")),
                surface="yaml",
                problems=self._problems,
                registry=self._registry,
                lines=lines,
            )
        if "write" in node.fields:
            values, lines = self._side(node.fields["write"], lead, WRITE_KEYS)
            write = write_declaration(
                values,
                subject=subject,
                where=Where(FILE, node.line_of("write")),
                surface="yaml",
                problems=self._problems,
                registry=self._registry,
                lines=lines,
            )
        return Entity(entry.key, read, write, where)

    def _side(self, entry: Field, lead: str, owned: tuple[str, ...]) -> tuple[dict[str, Value], dict[str, int]]:
        node = entry.node
        if not isinstance(node, Block):
            if not node.blank:
                self._problems.error(
                    "PZ0101",
                    f"{lead}: {entry.key} must be a mapping of options, got {shown_node(node)}",
                    where=Where(FILE, entry.line),
                    hint=f"write {entry.key}: {{…}}, or {entry.key}: alone for the defaults",
                )
            return {}, {}
        values: dict[str, Value] = {}
        lines: dict[str, int] = {}
        for key, field in node.fields.items():
            lines[key] = field.line
            if field.node.blank and key in owned:
                continue
            # Bounds of a cursor are text whatever they look like: 12.50 must keep its scale.
            values[key] = to_text(field.node) if key == "sync" else to_value(field.node)
            if key in owned and isinstance(field.node, Block):
                lines |= {f"{key}.{name}": inner.line for name, inner in field.node.fields.items()}
        return values, lines

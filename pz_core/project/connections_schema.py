"""JSON Schema of ``connections.yml``: pz's own keys, and those of each installed connector where it is named."""

from __future__ import annotations

from typing import Any

from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet
from pz_core.project.blocks import SYNC_KEYS
from pz_core.project.declarations import DUPLICATES, ON_DELETE
from pz_core.project.json_schema import DRAFT, DURATION, TEXT, Plugins, Schema, blank, closed, described, when, whole
from pz_core.values import CONTRACT_TYPES

#: A value of a connection's own key that the environment fills in.
_FILLED_IN: Schema = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}
_DECIMAL = r"^decimal\(0?([1-9]|[12][0-9]|3[0-8]),\s*[0-9]{1,2}\)$"
_CONNECTION_NAME = "^(?!.*__)[A-Za-z_][A-Za-z0-9_]*$"
_ENTITY_NAME = r"^[^.\s]+(\.[^.\s]+)*$"
_MOST_REQUESTS = 1_000_000


def connections_schema(plugins: Plugins) -> Schema:
    """The schema of ``connections.yml``.

    A connector that is not installed is no fault here, and its options are not looked at: the schema is as old as the
    last export.
    """
    shared = _shared(plugins)
    strategies = _strategies(plugins)
    parts: dict[str, Schema] = {}
    rules: list[Schema] = []
    installed: list[str] = []
    for name in plugins.names("connector"):
        made = plugins.ask("connector", name, lambda name=name: _connector(plugins, name, shared, strategies))  # type: ignore[misc]
        if made is None:
            continue
        installed.append(name)
        parts |= made
        rules.append(when("connector", [name], {"$ref": f"#/$defs/connection_{name}"}))
    rate = {"requests_per_minute": whole(1, _MOST_REQUESTS), "burst": whole(1, _MOST_REQUESTS)}
    any_name: Schema = {"type": "string", "pattern": r"\S"}
    connector: Schema = {"anyOf": [{"enum": installed}, any_name]} if installed else any_name
    connection: Schema = {
        "type": "object",
        "properties": {
            "connector": described(connector, "The kind of place."),
            "max_concurrency": blank(whole(), "How many nodes may use the place at once."),
            "rate_limit": described({"$ref": "#/$defs/rate_limit"}, "How fast it may be asked."),
            "retry": described({"$ref": "#/$defs/retry"}, "How often a fault that may pass is tried again."),
            "entities": blank(_entities(""), "Things in the place, named as the place names them."),
        },
        "required": ["connector"],
    }
    if rules:
        connection["allOf"] = rules
    return {
        "$schema": DRAFT,
        "title": "connections.yml of a pz project",
        "type": "object",
        "propertyNames": {"pattern": _CONNECTION_NAME},
        "additionalProperties": {"$ref": "#/$defs/connection"},
        "$defs": {
            "connection": connection,
            "read": blank({"type": "object", "properties": {**shared["read"], **_retired("incremental")}}),
            "write": blank({"type": "object", "properties": {**shared["write"], **_retired()}}),
            "retry": blank(closed({"max_attempts": whole(), "base_delay": DURATION, "max_delay": DURATION})),
            "rate_limit": blank(closed(rate, "requests_per_minute")),
            "sync": _sync(),
            "columns": _columns(),
            **parts,
        },
    }


def _shared(plugins: Plugins) -> dict[str, Schema]:
    """Keys of pz's own on each side of an entity."""
    retry = described({"$ref": "#/$defs/retry"}, "How often a fault that may pass is tried again.")
    strategy: Schema = {"enum": list(plugins.names("strategy"))}
    names: Schema = {"type": "array", "items": {"type": "string", "pattern": r"\S"}}
    return {
        "read": {
            "columns": described({"$ref": "#/$defs/columns"}, "The contract: these columns, with these types."),
            "sync": described({"$ref": "#/$defs/sync"}, "How a read goes on from the last one."),
            "retry": retry,
        },
        "write": {
            "strategy": blank(strategy, "How rows meet what is there; append by default."),
            "keys": blank(names, "Columns that tell rows apart."),
            "duplicates": blank({"enum": list(DUPLICATES)}, "Whether a row may arrive twice."),
            "on_delete": blank({"enum": list(ON_DELETE)}, "What a deleted row does to the target."),
            "schema_policy": blank({"enum": list(SCHEMA_POLICIES)}, "Which changes of columns are followed."),
            "retry": retry,
        },
    }


def _strategies(plugins: Plugins) -> dict[str, OptionSet | None]:
    """The options of each strategy, ``None`` where it cannot be asked."""

    def options(name: str) -> OptionSet:
        found: OptionSet = plugins.registry.load("strategy", name).options
        return found

    return {name: plugins.ask("strategy", name, lambda name=name: options(name)) for name in plugins.names("strategy")}  # type: ignore[misc]


def _connector(
    plugins: Plugins, name: str, shared: dict[str, Schema], strategies: dict[str, OptionSet | None]
) -> dict[str, Schema]:
    """What a connector adds: a connection of it, and the two sides of its entities."""
    target: Any = plugins.registry.load("connector", name)
    own = target.connection_options.json_schema()
    reserved: Schema = dict.fromkeys(RESERVED_CONNECTION_KEYS, True)
    reserved["entities"] = blank(_entities(name))
    options = {option.name: _filled_in(option) for option in target.connection_options.options}
    read = target.read_options.json_schema()
    return {
        f"connection_{name}": closed({**reserved, **options}, *own["required"]),
        f"read_{name}": blank(closed({**shared["read"], **read["properties"]}, *read["required"])),
        f"write_{name}": _write(target.write_options, shared["write"], strategies),
    }


def _write(options: OptionSet, shared: Schema, strategies: dict[str, OptionSet | None]) -> Schema:
    own = options.json_schema()
    brought: dict[str, Option] = {}
    takers: dict[str, list[str]] = {}
    for strategy, taken in strategies.items():
        for option in taken.options if taken is not None else ():
            if option.name not in own["properties"]:
                brought.setdefault(option.name, option)
                takers.setdefault(option.name, []).append(strategy)
    extra = {name: option.schema() for name, option in brought.items()}
    made = blank(closed({**shared, **extra, **own["properties"]}, *own["required"]))
    made["additionalProperties"] = any(taken is None for taken in strategies.values())
    rules = [
        {"if": {"required": [name]}, "then": {"properties": {"strategy": {"enum": words}}, "required": ["strategy"]}}
        for name, words in takers.items()
    ]
    return {**made, "allOf": rules} if rules else made


def _entities(name: str) -> Schema:
    suffix = f"_{name}" if name else ""
    sides = {
        "read": described({"$ref": f"#/$defs/read{suffix}"}, "How it is read."),
        "write": described({"$ref": f"#/$defs/write{suffix}"}, "How it is written."),
    }
    return {
        "type": "object",
        "propertyNames": {"pattern": _ENTITY_NAME},
        "additionalProperties": blank(closed(sides)),
    }


def _filled_in(option: Option) -> Schema:
    """An option of a connection, for which ``${NAME}`` may stand too."""
    made = option.schema()
    if not made.get("enum") and option.type not in ("integer", "number", "boolean"):
        return made
    shown: Schema = {key: made.pop(key) for key in ("description", "default") if key in made}
    return {**shown, "anyOf": [made, _FILLED_IN]}


def _sync() -> Schema:
    keys = {key: blank(TEXT) for words in SYNC_KEYS.values() for key in words}
    rules: list[Schema] = []
    for mode, words in SYNC_KEYS.items():
        then: Schema = {"propertyNames": {"enum": ["mode", *words]}}
        if mode == "incremental":
            then |= {"required": ["cursor"], "properties": {"cursor": TEXT}}
        rules.append(when("mode", [mode], then))
    return {**blank(closed({"mode": {"enum": list(SYNC_KEYS)}, **keys}, "mode")), "allOf": rules}


def _columns() -> Schema:
    word = {"anyOf": [{"enum": list(CONTRACT_TYPES)}, {"type": "string", "pattern": _DECIMAL}]}
    return {"type": ["object", "null"], "propertyNames": {"pattern": r"\S"}, "additionalProperties": word}


def _retired(*names: str) -> Schema:
    """Keys that are refused whatever the connector is."""
    return dict.fromkeys(("schema", "table", "rate_limit", *names), False)

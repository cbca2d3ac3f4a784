"""From a connection as written to a connection as its connector gets it: texts as texts, secrets wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pz_core.contract.connector import ConnectionConfig
from pz_core.contract.options import Option, OptionSet
from pz_core.contract.secrets import Secret
from pz_core.errors import withhold
from pz_core.plugins import Registry
from pz_core.project.model import Connection, Project
from pz_core.values import Value


def connection_config(project: Project, name: str, registry: Registry) -> ConnectionConfig:
    """What the connector of a connection is opened with.

    Args:
        project: the loaded project.
        name: the connection's key in ``connections.yml``.
        registry: where connectors are found; it knows which options are secret.

    Raises:
        PzError: PZ0305 and the other codes of :meth:`Registry.load`, if the connector cannot be used.
    """
    return config_of(project.connections[name], project.root, registry)


def config_of(connection: Connection, root: Path, registry: Registry) -> ConnectionConfig:
    """The same for a connection that is at hand, of a project that need not load.

    Args:
        connection: as written.
        root: the project's folder.
        registry: where connectors are found.

    Raises:
        PzError: like :func:`connection_config`.
    """
    target = registry.load("connector", connection.connector)
    options: dict[str, Value | Secret] = {}
    for key, value in typed_options(target.connection_options, connection.config).items():
        option = target.connection_options.get(key)
        if option is not None and option.secret:
            withhold(dict.fromkeys(_texts(value), f"<{key}>"))
            options[key] = _wrapped(value)
        else:
            options[key] = value
    return ConnectionConfig(connection.name, connection.connector, options, str(root))


def typed_options(declared: OptionSet, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values with plain numbers made text where the option is a text, everything else as written."""
    return {name: _typed(declared.get(name), value) for name, value in values.items()}


def _typed(option: Option | None, value: Value) -> Value:
    if (
        option is not None
        and option.type == "string"
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
    ):
        return str(value)
    return value


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(cast(Value, item))
    else:
        yield str(value)


def _wrapped(value: Value) -> Any:
    """A secret of any shape: every text in it is wrapped, so that no part of it can be printed."""
    if isinstance(value, Mapping):
        return {key: _wrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wrapped(cast(Value, item)) for item in value]
    return Secret(str(value))

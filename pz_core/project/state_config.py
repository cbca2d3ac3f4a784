"""``state:`` of ``project.yml`` with the defaults that ``PZ_STATE_*`` gives.

The file beats the environment, the environment beats the default. Credentials have no spelling in the file: they are
``PZ_STATE_CONNECTION_STRING`` and ``PZ_STATE_TOKEN``, and whoever opens the store reads them there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from pz_core.errors import Problems, PzError, Where
from pz_core.plugins.registry import Registry
from pz_core.project.model import Connection, StateConfig
from pz_core.project.shapes import did_you_mean, one_of, switch, whole_value
from pz_core.project.yaml import Block, Field, Node, Text, typed
from pz_core.values import Value

PREFIX = "PZ_STATE_"
CREDENTIALS = (f"{PREFIX}CONNECTION_STRING", f"{PREFIX}TOKEN")
#: Known words for the backend and the keys that each takes, whether its plugin is installed or not.
BACKENDS: dict[str, tuple[str, ...]] = {
    "local": (),
    "sqlite": ("path",),
    "postgres": ("connection", "schema", "artifacts", "events"),
    "sqlserver": ("connection", "schema", "artifacts", "events"),
    "http": ("url", "timeout_seconds", "artifacts", "events"),
}
SERVERS = ("postgres", "sqlserver")
_SWITCHES = ("artifacts", "events")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_DEFAULT_SCHEMA = "pz"


def read_state(
    entry: Field | None, file: str, environ: Mapping[str, str], registry: Registry, problems: Problems
) -> StateConfig:
    """The ``state:`` block with the environment's defaults; PZ0124 for whatever is wrong with it."""
    return _Reader(entry, file, environ, registry, problems).read()


def resolve_state(
    state: StateConfig,
    connections: Mapping[str, Connection] | None,
    environ: Mapping[str, str],
    where: Where,
    problems: Problems,
) -> StateConfig:
    """Check that the store can be found and opened (PZ0125), and attach the connection that it names.

    Args:
        state: what :func:`read_state` gave.
        connections: the project's connections; ``None`` if their file could not be read, which is told elsewhere.
        environ: for the credentials.
        where: place of the block.
        problems: gets the faults.
    """
    if state.backend == "http":
        _check_url(state, where, problems)
        return state
    keys = BACKENDS.get(state.backend, ())
    name = state.settings.get("connection")
    if not isinstance(name, str):
        if state.backend in SERVERS and not environ.get(CREDENTIALS[0]):
            problems.error(
                "PZ0125",
                f"state.backend {state.backend} has neither state.connection nor {CREDENTIALS[0]}",
                where=where,
                hint=f"name a {state.backend} connection under state.connection, or set {CREDENTIALS[0]}",
            )
        return state
    if connections is None:
        return state
    found = connections.get(name)
    if found is None and not _WORD.fullmatch(name):
        problems.error(
            "PZ0125",
            "state.connection does not name an entry of connections.yml",
            where=where,
            hint=f"write the name of a connection; a connection string belongs into {CREDENTIALS[0]}",
        )
        return state
    if found is None:
        problems.error(
            "PZ0125",
            f"state.connection '{name}' is not in connections.yml",
            where=where,
            hint=f"{did_you_mean(name, connections)}known connections: {one_of(sorted(connections))}",
        )
        return state
    if keys and found.connector != state.backend:
        problems.error(
            "PZ0125",
            f"state.connection '{name}' is a {found.connector} connection, and the backend is {state.backend}",
            where=where,
            hint=f"name a connection whose connector is {state.backend}",
        )
        return state
    return replace(state, connection=found)


def _check_url(state: StateConfig, where: Where, problems: Problems) -> None:
    url = state.settings.get("url")
    source = f"{PREFIX}URL" if "url" in state.from_env else "state.url"
    what = f"{source} is no absolute http or https address"
    if url is None:
        what = f"state.backend http has neither state.url nor {PREFIX}URL"
    elif isinstance(url, str):
        try:
            parts = urlsplit(url)
            if parts.scheme in ("http", "https") and parts.hostname:
                return
        except ValueError:
            pass
    problems.error("PZ0125", what, where=where, hint="write url: https://<host>/<path>")


class _Reader:
    """Reads the block key by key. Values never stand in a message: they may be credentials."""

    def __init__(
        self, entry: Field | None, file: str, environ: Mapping[str, str], registry: Registry, problems: Problems
    ) -> None:
        self._entry = entry
        self._file = file
        self._environ = environ
        self._registry = registry
        self._problems = problems
        self._from_env: set[str] = set()

    def read(self) -> StateConfig:
        block = self._block()
        backend, known = self._backend(block)
        keys = self._keys(backend, block) if known else ()
        if known:
            self._refuse_foreign(block, backend, keys)
        settings: dict[str, Value] = {}
        for key in keys:
            if key not in _SWITCHES:
                value = self._setting(block, key)
                if value is not None:
                    settings[key] = value
        if "schema" in keys:
            settings.setdefault("schema", _DEFAULT_SCHEMA)
        artifacts, events = self._switches(block, backend, keys)
        declared = self._entry is not None and not self._entry.node.blank
        return StateConfig(backend, settings, artifacts, events, declared, frozenset(self._from_env))

    def _error(self, what: str, hint: str, line: int | None) -> None:
        where = Where(self._file, line) if line is not None else Where(self._file)
        self._problems.error("PZ0124", what, where=where, hint=hint)

    def _block(self) -> Block:
        if self._entry is None or self._entry.node.blank:
            return Block(1 if self._entry is None else self._entry.line)
        if not isinstance(self._entry.node, Block):
            self._error("state must be a mapping", "write state: {backend: local}", self._entry.line)
            return Block(self._entry.line)
        return self._entry.node

    def _given(self, block: Block, key: str) -> Node | None:
        node = block.get(key)
        return None if node is None or node.blank else node

    def _env(self, key: str) -> str | None:
        if key == "connection":
            return None
        value = self._environ.get(PREFIX + key.upper())
        return value if value and value.strip() else None

    # --- the backend --------------------------------------------------------------------------------------------

    def _backend(self, block: Block) -> tuple[str, bool]:
        names = tuple(dict.fromkeys([*BACKENDS, *self._registry.names("state")]))
        node = self._given(block, "backend")
        if node is not None:
            word, source, line = node.text if isinstance(node, Text) else "", "state.backend", block.line_of("backend")
        else:
            given = self._env("backend")
            if given is None:
                return "local", True
            self._from_env.add("backend")
            word, source, line = given.strip(), f"{PREFIX}BACKEND", None
        if word in names:
            return word, True
        named = f" '{word}'" if _WORD.fullmatch(word) else ""
        self._error(f"{source}{named} is not known", f"{did_you_mean(word, names)}backends: {one_of(names)}", line)
        return "local", False

    def _keys(self, backend: str, block: Block) -> tuple[str, ...]:
        """The keys of a backend; a plugin is asked only where the table does not answer."""
        keys = BACKENDS.get(backend)
        if keys is not None and all(key == "backend" or key in keys for key in block.fields):
            return keys
        if self._registry.has("state", backend):
            try:
                own = self._registry.registration("state", backend).keys
            except PzError as error:
                if keys is not None:
                    return keys  # a verb that opens the store tells what is wrong with its plugin
                self._problems.add(error)
                return tuple(block.fields)
            return tuple(dict.fromkeys([*(keys or ()), *own]))
        return keys or ()

    def _refuse_foreign(self, block: Block, backend: str, keys: tuple[str, ...]) -> None:
        takes = f"backend {backend} takes {one_of(keys)}" if keys else f"backend {backend} takes no further key"
        for key, entry in block.fields.items():
            if key != "backend" and key not in keys:
                near = did_you_mean(key, ("backend", *keys))
                self._error(f"state.{key} is not a key of backend {backend}", f"{near}{takes}", entry.line)

    # --- its keys -----------------------------------------------------------------------------------------------

    def _setting(self, block: Block, key: str) -> Value | None:
        node = self._given(block, key)
        if node is None:
            text = self._env(key)
            if text is None:
                return None
            self._from_env.add(key)
            if key == "timeout_seconds":
                return self._seconds(typed(text.strip()), f"{PREFIX}{key.upper()}", None)
            return text.strip()
        line = block.line_of(key)
        if key == "timeout_seconds":
            return self._seconds(node.value if isinstance(node, Text) else "", f"state.{key}", line)
        if not isinstance(node, Text) or not node.text.strip():
            self._error(f"state.{key} must be a text", f"write {key}: followed by one value", line)
            return None
        return node.text

    def _seconds(self, value: Value, source: str, line: int | None) -> int | None:
        made = whole_value(value, 1)
        if made is None:
            self._error(f"{source} must be a whole number from 1 up", "write a number of seconds", line)
        return made

    def _switches(self, block: Block, backend: str, keys: tuple[str, ...]) -> tuple[bool, bool]:
        default = backend in SERVERS or (backend not in BACKENDS and "artifacts" in keys)
        artifacts = self._switch(block, "artifacts", keys, default)
        events = self._switch(block, "events", keys, False)
        if backend == "http":
            for key, on in (("artifacts", artifacts), ("events", events)):
                if on:
                    self._error(
                        f"{self._source(block, key)} cannot be true with backend http, which holds no artifacts",
                        f"remove {key}",
                        self._line(block, key),
                    )
            return False, False
        if events and not artifacts:
            self._error(
                f"{self._source(block, 'events')} needs state.artifacts",
                "set artifacts: true beside events: true",
                self._line(block, "events"),
            )
        return artifacts, events

    def _source(self, block: Block, key: str) -> str:
        return f"state.{key}" if self._given(block, key) is not None else PREFIX + key.upper()

    def _line(self, block: Block, key: str) -> int | None:
        return block.line_of(key) if self._given(block, key) is not None else None

    def _switch(self, block: Block, key: str, keys: tuple[str, ...], default: bool) -> bool:
        node = self._given(block, key)
        if node is not None:
            made = switch(node)
            if made is None and key in keys:
                hint = f"write {key}: true or {key}: false, without quotes"
                self._error(f"state.{key} must be true or false", hint, block.line_of(key))
            return bool(made) if made is not None and key in keys else default
        text = self._env(key)
        if text is None:
            return default
        word = text.strip().lower()
        if word not in ("true", "false"):
            self._error(f"{PREFIX}{key.upper()} must be true or false", "set it to true or false, or unset it", None)
            return default
        if key not in keys:
            return default  # it is meant for projects whose backend knows the key
        self._from_env.add(key)
        return word == "true"

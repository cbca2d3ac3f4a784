"""``engine:`` and ``retention:`` of ``project.yml``."""

from __future__ import annotations

from pz_core.errors import Problems, Where
from pz_core.plugins.registry import Registry
from pz_core.project.model import BreakerSettings, EngineConfig
from pz_core.project.shapes import did_you_mean, one_of, shown, shown_node, switch, unknown_keys, whole
from pz_core.project.yaml import Block, Field, Node, Text
from pz_core.values.durations import parse_duration
from pz_core.values.sizes import is_percentage, parse_size

DEFAULT_KEEP = 10

_KEYS = (
    "name",
    "threads",
    "batch_bytes",
    "force_universal",
    "check_samples",
    "duckdb",
    "breaker",
    "node_timeout",
)
_DUCKDB_KEYS = ("memory_limit", "threads", "temp_directory")
_BREAKER_KEYS = ("failure_threshold", "cool_down")
_LEAST_BATCH = 1_048_576
_MOST_BATCH = 536_870_912
_MOST = 2**31 - 1
_DURATION_HINT = "write digits and one of ms, s, m, h, d: 500ms, 30s, 5m"


def read_engine(entry: Field | None, file: str, registry: Registry, problems: Problems) -> EngineConfig:
    """The ``engine:`` block with its defaults; PZ0120 for each key that is wrong."""
    if entry is None or entry.node.blank:
        return EngineConfig()
    if not isinstance(entry.node, Block):
        problems.error(
            "PZ0120",
            f"engine must be a mapping, got {shown_node(entry.node)}",
            where=Where(file, entry.line),
            hint=f"engine takes {one_of(_KEYS)}",
        )
        return EngineConfig()
    return _Reader(entry.node, file, problems).read(registry)


def read_retention(entry: Field | None, file: str, problems: Problems) -> int | None:
    """How many runs keep their staging file; ``None`` for ``off``. PZ0123 for anything else."""
    if entry is None or entry.node.blank:
        return DEFAULT_KEEP
    node = entry.node
    hint = "write retention: {keep_last: 10}, or retention: off"
    if isinstance(node, Text) and node.text.lower() in ("off", "false", "no"):
        return None
    if not isinstance(node, Block):
        problems.error(
            "PZ0123",
            f"retention must be off or a mapping with keep_last, got {shown_node(node)}",
            where=Where(file, entry.line),
            hint=hint,
        )
        return DEFAULT_KEEP
    unknown_keys(node, ("keep_last",), code="PZ0123", what="retention", file=file, problems=problems)
    keep = node.get("keep_last")
    made = None if keep is None else whole(keep, 1)
    if made is None:
        got = "nothing" if keep is None or keep.blank else shown_node(keep)
        problems.error(
            "PZ0123",
            f"retention.keep_last must be a whole number from 1 up, got {got}",
            where=Where(file, node.line_of("keep_last")),
            hint=hint,
        )
        return DEFAULT_KEEP
    return made


class _Reader:
    """Reads the keys of ``engine:``, each with its bounds."""

    def __init__(self, block: Block, file: str, problems: Problems) -> None:
        self._block = block
        self._file = file
        self._problems = problems

    def read(self, registry: Registry) -> EngineConfig:
        block = self._block
        unknown_keys(block, _KEYS, code="PZ0120", what="engine", file=self._file, problems=self._problems)
        default = EngineConfig()
        duckdb = self._sub("duckdb", _DUCKDB_KEYS)
        threads = self._whole(block, "threads", "engine.threads", 1, _MOST)
        batch = self._whole(block, "batch_bytes", "engine.batch_bytes", _LEAST_BATCH, _MOST_BATCH)
        return EngineConfig(
            name=self._engine(registry) or default.name,
            threads=default.threads if threads is None else threads,
            batch_bytes=default.batch_bytes if batch is None else batch,
            force_universal=self._switch("force_universal", default.force_universal),
            check_samples=self._switch("check_samples", default.check_samples),
            memory_limit=self._size(duckdb, "memory_limit"),
            duckdb_threads=self._whole(duckdb, "threads", "engine.duckdb.threads", 1, _MOST),
            temp_directory=self._text(duckdb, "temp_directory"),
            breaker=self._breaker(),
            node_timeout_ms=self._duration(block, "node_timeout", "engine.node_timeout"),
        )

    def _error(self, block: Block, key: str, what: str, hint: str) -> None:
        self._problems.error("PZ0120", what, where=Where(self._file, block.line_of(key)), hint=hint)

    def _given(self, block: Block, key: str) -> Node | None:
        node = block.get(key)
        return None if node is None or node.blank else node

    def _sub(self, key: str, known: tuple[str, ...]) -> Block:
        node = self._given(self._block, key)
        if node is None:
            return Block(self._block.line_of(key))
        if not isinstance(node, Block):
            self._error(
                self._block, key, f"engine.{key} must be a mapping, got {shown_node(node)}", f"it takes {one_of(known)}"
            )
            return Block(self._block.line_of(key))
        unknown_keys(node, known, code="PZ0120", what=f"engine.{key}", file=self._file, problems=self._problems)
        return node

    def _whole(self, block: Block, key: str, path: str, least: int, most: int) -> int | None:
        node = self._given(block, key)
        if node is None:
            return None
        made = whole(node, least, most)
        if made is None:
            bounds = f"from {least} up" if most == _MOST else f"from {least} to {most}"
            self._error(
                block,
                key,
                f"{path} must be a whole number {bounds}, got {shown_node(node)}",
                f"write {key}: followed by digits, without quotes",
            )
        return made

    def _size(self, block: Block, key: str) -> str | None:
        made = self._text(block, key)
        if made is not None and not is_percentage(made) and parse_size(made) is None:
            hint = "write a number and a unit, such as 4GB, 512MiB or 80%"
            self._error(block, key, f"engine.duckdb.{key} {shown(made)} is no size", hint)
            return None
        return made

    def _switch(self, key: str, default: bool) -> bool:
        node = self._given(self._block, key)
        if node is None:
            return default
        made = switch(node)
        if made is None:
            what = f"engine.{key} must be true or false, got {shown_node(node)}"
            self._error(self._block, key, what, f"write {key}: true or {key}: false, without quotes")
            return default
        return made

    def _text(self, block: Block, key: str) -> str | None:
        node = self._given(block, key)
        if node is None:
            return None
        if not isinstance(node, Text) or not node.text.strip():
            self._error(
                block,
                key,
                f"engine.duckdb.{key} must be a text, got {shown_node(node)}",
                f"write {key}: followed by a text",
            )
            return None
        return node.text.strip()

    def _duration(self, block: Block, key: str, path: str) -> int | None:
        node = self._given(block, key)
        if node is None:
            return None
        made = parse_duration(node.text) if isinstance(node, Text) else None
        if not made:
            self._error(block, key, f"{path} must be a duration above zero, got {shown_node(node)}", _DURATION_HINT)
            return None
        return made

    def _breaker(self) -> BreakerSettings | None:
        if self._given(self._block, "breaker") is None:
            return None
        block = self._sub("breaker", _BREAKER_KEYS)
        if not isinstance(self._block.get("breaker"), Block):
            return None
        for key in _BREAKER_KEYS:
            if self._given(block, key) is None:
                hint = "write breaker: {failure_threshold: 3, cool_down: 30s}"
                self._error(block, key, f"engine.breaker lacks {key}; it needs both its fields", hint)
        failures = self._whole(block, "failure_threshold", "engine.breaker.failure_threshold", 1, _MOST)
        pause = self._duration(block, "cool_down", "engine.breaker.cool_down")
        return None if failures is None or pause is None else BreakerSettings(failures, pause)

    def _engine(self, registry: Registry) -> str | None:
        node = self._given(self._block, "name")
        if node is None:
            return None
        word = node.text if isinstance(node, Text) else ""
        if word and registry.has("engine", word):
            return word
        known = registry.names("engine")
        hint = f"{did_you_mean(word, known)}engines: {one_of(known)}"
        if word and registry.offer("engine", word) is not None:
            hint = registry.missing("engine", word).hint or hint
        self._error(
            self._block, "name", f"engine.name {shown_node(node)} is not known; known are {one_of(known)}", hint
        )
        return None

"""JSON Schemas of a project's files, for editors: they complete keys and mark what loading would refuse.

A schema knows the shape of one file and nothing of the others, so it refuses less than pz does, never more. What
plugins bring (options, checks, strategies, engines, state backends) is taken from those that are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pz_core.contract.check import DescribedCheck
from pz_core.contract.registration import Kind
from pz_core.errors import PzError
from pz_core.plugins.registry import Registry
from pz_core.project.project_file import DRIFT_WORDS
from pz_core.project.sidecars import MATERIALIZATIONS
from pz_core.project.state_config import BACKENDS
from pz_core.values.durations import DURATION_PATTERN

Schema = dict[str, Any]
T = TypeVar("T")

DRAFT = "https://json-schema.org/draft/2020-12/schema"
#: What a plain scalar may be where pz takes its text.
TEXT: Schema = {"type": ["string", "number", "boolean"], "pattern": r"\S"}
DURATION: Schema = {"type": "string", "pattern": DURATION_PATTERN}
SWITCH: Schema = {"type": "boolean"}
_VERSION: Schema = {"type": ["string", "integer"], "pattern": r"^\s*(v?[0-9]|[<>=~!])"}
_OFF = "^([oO][fF][fF]|[nN][oO]|[fF][aA][lL][sS][eE])$"


def whole(minimum: int = 1, maximum: int | None = None) -> Schema:
    """A whole number within bounds, both inclusive."""
    made: Schema = {"type": "integer", "minimum": minimum}
    return made if maximum is None else {**made, "maximum": maximum}


def closed(properties: Mapping[str, Any], *required: str) -> Schema:
    """A mapping with these keys and no others."""
    made: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def blank(schema: Schema, description: str | None = None) -> Schema:
    """The same, where a key without a value counts as not written."""
    made = {**schema}
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    if "type" in made:
        kinds = made["type"] if isinstance(made["type"], list) else [made["type"]]
        made["type"] = [*kinds, "null"]
    if "anyOf" in made and "type" not in made:
        made["anyOf"] = [*made["anyOf"], {"type": "null"}]
    return described(made, description) if description else made


def described(schema: Schema, description: str) -> Schema:
    """The same, with what an editor shows beside it."""
    return {"description": description, **schema}


class Plugins:
    """Asks plugins, and keeps the faults of those that cannot be asked.

    Args:
        registry: what a project may use.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.faults: list[PzError] = []

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Names of a kind."""
        return self.registry.names(kind)

    def ask(self, kind: Kind, name: str, question: Callable[[], T]) -> T | None:
        """An answer; ``None``, and a fault kept, where a plugin raises."""
        try:
            return question()
        except PzError as error:
            self.faults.append(error)
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything; it is named, and hurts no other
            self.faults.append(
                PzError(
                    "PZ0701",
                    f"{kind} '{name}' cannot say what it takes: it raised {type(error).__name__}",
                    hint="upgrade the plugin, or report this to its authors",
                    cause=error,
                )
            )
        return None


# --- project.yml -----------------------------------------------------------------------------------------------------


def project_schema(plugins: Plugins) -> Schema:
    """The schema of ``project.yml``."""
    packages = described({"type": "array", "items": _package(isolation=True)}, "Packages that bring connectors.")
    others = described({"type": "array", "items": _package(isolation=False)}, "Packages that bring no connector.")
    keys = {
        "name": described(TEXT, "What the project is called."),
        "version": described(TEXT, "The project's own version."),
        "pz": blank({"type": ["string", "number"]}, 'Versions of pz that it was written for, such as ">=1.0 <2.0".'),
        "connectors": blank(packages),
        "plugins": blank(others),
        "env": blank(
            {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}},
            "Environment variables that env() in a pipeline may read.",
        ),
        "vars": blank({"type": "object"}, "Values for var() in pipelines."),
        "engine": blank(_engine(plugins), "How much is done at once, and by what."),
        "retention": _retention(),
        "state": blank(_state(plugins), "Where watermarks are kept."),
        "on_source_drift": blank({"enum": list(DRIFT_WORDS)}, "What to do when a dataset without a contract changes."),
    }
    return {"$schema": DRAFT, "title": "project.yml of a pz project", **closed(keys, "name", "version")}


def _package(*, isolation: bool) -> Schema:
    keys: Schema = {
        "package": described(
            {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"}, "Name that pip installs."
        ),
        "version": blank(_VERSION, "A version or a range; quote one such as 1.0."),
    }
    if isolation:
        keys["isolation"] = blank({"enum": ["process"]}, "Run the connector in a process of its own.")
    return closed(keys, "package")


def _engine(plugins: Plugins) -> Schema:
    breaker = {"failure_threshold": whole(), "cool_down": DURATION}
    duckdb = {
        "memory_limit": blank(TEXT, "Beyond it DuckDB spills to disk: 8GB."),
        "threads": blank(whole()),
        "temp_directory": blank(TEXT, "Where DuckDB spills to."),
    }
    keys = {
        "name": blank({"enum": list(plugins.names("engine"))}),
        "threads": blank(whole(), "Nodes at work at once."),
        "batch_bytes": blank(whole(1_048_576, 536_870_912), "Size of a record batch in bytes."),
        "force_universal": blank(SWITCH, "Move all rows in record batches, for comparison."),
        "check_samples": blank(SWITCH, "Whether failed checks show values."),
        "duckdb": blank(closed(duckdb)),
        "breaker": blank(closed(breaker, *breaker), "Pause a connection that fails again and again."),
        "node_timeout": blank(DURATION, "How long one node may take: 30m."),
    }
    return closed(keys)


def _retention() -> Schema:
    return {
        "description": "How many runs keep their staging database; off keeps all.",
        "anyOf": [
            closed({"keep_last": whole()}, "keep_last"),
            {"type": "string", "pattern": _OFF},
            {"enum": [False, None]},
        ],
    }


def _state(plugins: Plugins) -> Schema:
    taken: dict[str, tuple[str, ...] | None] = dict(BACKENDS)
    for name in plugins.names("state"):
        made = plugins.ask("state", name, lambda name=name: plugins.registry.registration("state", name))  # type: ignore[misc]
        known = BACKENDS.get(name)
        if made is not None:
            taken[name] = tuple(dict.fromkeys([*(known or ()), *made.keys]))
        elif known is None:
            taken[name] = None
    special = {"timeout_seconds": whole(), "artifacts": SWITCH, "events": SWITCH}
    names = sorted({key for keys in taken.values() for key in keys or ()})
    properties: Schema = {"backend": blank({"enum": list(taken)})}
    properties |= {key: blank(special.get(key, TEXT)) for key in names}
    rules: list[Schema] = []
    for backend, keys in taken.items():
        if keys is None:
            continue
        rule: Schema = {"propertyNames": {"enum": ["backend", *keys]}}
        if backend == "http":
            rule["properties"] = {key: {"enum": [False, None]} for key in ("artifacts", "events")}
        rules.append(when("backend", [backend], rule))
    made_all = closed(properties)
    made_all["additionalProperties"] = any(keys is None for keys in taken.values())
    return {**made_all, "allOf": rules}


def when(key: str, words: list[str], then: Schema) -> Schema:
    """A rule that holds where a key has one of some values."""
    return {"if": {"properties": {key: {"enum": words}}, "required": [key]}, "then": then}


# --- sidecars --------------------------------------------------------------------------------------------------------


def sidecar_schema(plugins: Plugins) -> Schema:
    """The schema of ``pipelines/configs/*.yml``."""
    bodies: Schema = {}
    for name in plugins.names("check"):
        target = plugins.ask("check", name, lambda name=name: plugins.registry.load("check", name))  # type: ignore[misc]
        body = dict(target.body_schema) if isinstance(target, DescribedCheck) else {}
        summary = plugins.ask("check", name, lambda name=name: plugins.registry.registration("check", name).summary)  # type: ignore[misc]
        bodies[name] = described(_with_samples(body), summary or name)
    checks = {"type": "array", "items": {**closed(bodies), "minProperties": 1, "maxProperties": 1}}
    keys = {
        "pipeline": described({"type": "string", "pattern": r"\S"}, "The pipeline: name of a file under pipelines/."),
        "materialization": blank({"enum": list(MATERIALIZATIONS)}, "How its rows are held until they are loaded."),
        "tags": blank({"type": "array", "items": TEXT}, "Words for --select tag:…"),
        "checks": blank(checks, "Rules that its rows must keep."),
    }
    return {"$schema": DRAFT, "title": "pipelines/configs/*.yml of a pz project", **closed(keys, "pipeline")}


def _with_samples(body: Schema) -> Schema:
    """A check's body with the key that every check takes."""
    made = {**body}
    for word in ("anyOf", "oneOf"):
        if word in made and "properties" not in made:
            made[word] = [_with_samples(part) for part in made[word]]
    if "properties" in made:
        samples = blank(SWITCH, "Whether a failure may show values.")
        made["properties"] = {**made["properties"], "sample_values": samples}
    return made

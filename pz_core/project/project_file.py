"""``project.yml``: identity, packages, variables, settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import field

from pz_core.errors import Problems, Where
from pz_core.plugins.registry import Registry
from pz_core.project.interpolate import interpolate, references, variables
from pz_core.project.model import PackageRequirement
from pz_core.project.requirements import read_requirements, refuse_two_versions, satisfies, specifier
from pz_core.project.retired import refuse_outputs
from pz_core.project.shapes import did_you_mean, one_of, shown_node
from pz_core.project.yaml import Block, Items, Text
from pz_core.values import Value
from pz_core.values.config import is_unicode
from pz_core.values.discreet import Discreet

FILE = "project.yml"
KEYS = (
    "name",
    "version",
    "pz",
    "connectors",
    "plugins",
    "env",
    "vars",
    "engine",
    "retention",
    "state",
    "on_source_drift",
)
DRIFT_WORDS = ("ignore", "warn", "fail")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Identity(Discreet, frozen=True):
    """All of ``project.yml`` but ``engine``, ``retention`` and ``state``, which have readers of their own.

    Args:
        allowed: names of the packages that plugins may come from, ``None`` where the project lists none.
        outside_vars: names of variables that the environment has a part in.
        variables: names of the environment variables that ``vars:`` was made with.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"vars"})

    name: str = ""
    version: str = ""
    connectors: tuple[PackageRequirement, ...] = ()
    plugins: tuple[PackageRequirement, ...] = ()
    allowed: frozenset[str] | None = None
    env: tuple[str, ...] = ()
    vars: Mapping[str, Value] = field(default_factory=dict)
    on_source_drift: str = "ignore"
    outside_vars: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()

    def registry(self, root: Path) -> Registry:
        """The plugins that the project may use.

        Args:
            root: its folder, which the environments of isolated packages are in.
        """
        isolated = [requirement.name for requirement in self.connectors if requirement.isolation]
        if not isolated:
            return Registry(self.allowed)
        from pz_core.plugins.isolation.environment import environments

        return Registry(self.allowed, isolated=environments(root, isolated))


def read_identity(block: Block, environ: Mapping[str, str], running: str, problems: Problems) -> Identity:
    """Read ``project.yml``.

    Args:
        block: the file.
        environ: variables for ``${NAME}`` in ``vars:``.
        running: version of this pz, which ``pz:`` speaks of.
        problems: gets PZ0101, PZ0102, PZ0103, PZ0126, PZ0138, PZ0139, PZ0346 and PZ0352.
    """
    reader = _Reader(block, problems)
    reader.refuse_unknown()
    name, version = reader.required("name"), reader.required("version")
    reader.check_engine_version(running)
    listed: dict[str, tuple[PackageRequirement, ...]] = {}
    for key in ("connectors", "plugins"):
        entry = block.fields.get(key)
        listed[key] = () if entry is None else read_requirements(entry, FILE, problems)
    both = (*listed["connectors"], *listed["plugins"])
    refuse_two_versions(both, problems)
    return Identity(
        name,
        version,
        listed["connectors"],
        listed["plugins"],
        frozenset(r.name for r in both) if both else None,
        reader.env(),
        reader.vars(environ),
        reader.drift(),
        reader.outside_vars(),
        reader.variables(),
    )


def vars_from_json(text: str, problems: Problems) -> dict[str, Value]:
    """The variables of ``--vars``; PZ0102 if the text is no JSON object."""

    def refuse(what: str) -> dict[str, Value]:
        problems.error("PZ0102", f"--vars {what}", hint='write --vars \'{"name": "value"}\'')
        return {}

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in items:
            if key in made:
                raise _RefusedJsonError(f"names '{key}' twice")
            made[key] = value
        return made

    def constant(word: str) -> Any:
        raise _RefusedJsonError(f"holds {word}, which JSON does not have")

    try:
        made = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except _RefusedJsonError as error:
        return refuse(str(error))
    except (ValueError, RecursionError):
        return refuse("is not JSON")
    if not isinstance(made, dict):
        return refuse("is not a JSON object")
    if not is_unicode(made):
        return refuse("holds an escape that is half a character")
    nulls = sorted(key for key, value in made.items() if _holds_null(value))
    if _holds_nul(made):
        return refuse("holds a NUL character")
    if nulls:
        return refuse(f"holds null in {one_of(nulls)}; a variable has a value")
    return made


class _RefusedJsonError(Exception):
    """JSON that would be read in a way that surprises."""


def _holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in k or _holds_nul(v) for k, v in value.items())
    if isinstance(value, list):
        return any(_holds_nul(v) for v in value)
    return isinstance(value, str) and "\0" in value


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_null(v) for v in value.values())
    if isinstance(value, list):
        return any(_holds_null(v) for v in value)
    return value is None


class _Reader:
    """Reads the keys one by one."""

    def __init__(self, block: Block, problems: Problems) -> None:
        self._block = block
        self._problems = problems

    def _error(self, code: str, key: str, what: str, hint: str) -> None:
        entry = self._block.fields.get(key)
        where = Where(FILE) if entry is None else Where(FILE, entry.line)
        self._problems.error(code, what, where=where, hint=hint)

    def refuse_unknown(self) -> None:
        for key in self._block.fields:
            if key == "outputs":
                refuse_outputs(self._block, FILE, self._problems)
            elif key == "feeds":
                self._error(
                    "PZ0352",
                    key,
                    "feeds is not a key of project.yml any more",
                    "remove it; packages come from the index that pip and uv use (PIP_INDEX_URL, UV_INDEX_URL)",
                )
            elif key not in KEYS:
                self._error(
                    "PZ0101",
                    key,
                    f"project.yml has no key '{key}'",
                    f"{did_you_mean(key, KEYS)}known keys: {one_of(KEYS)}",
                )

    def required(self, key: str) -> str:
        node = self._block.get(key)
        if isinstance(node, Text) and not node.blank and node.text.strip():
            return node.text.strip()
        got = "" if node is None or node.blank else f", got {shown_node(node)}"
        example = "orders" if key == "name" else "0.1.0"
        self._error("PZ0101", key, f"project.yml needs {key}: with a text{got}", f"add the line {key}: {example}")
        return ""

    def check_engine_version(self, running: str) -> None:
        node = self._block.get("pz")
        if node is None or node.blank:
            return
        hint = 'write a range such as ">=1.0 <2.0"'
        made = specifier(node.text) if isinstance(node, Text) else None
        if made is None:
            self._error("PZ0101", "pz", f"pz: {shown_node(node)} is neither a version nor a range", hint)
        elif not satisfies(running, made):
            self._error(
                "PZ0138",
                "pz",
                f"the project asks for pz {shown_node(node)}, and this is pz {running}",
                f"install a version that fits (pip install 'pz-core{made}'), or change pz: in project.yml",
            )

    def env(self) -> tuple[str, ...]:
        node = self._block.get("env")
        if node is None or node.blank:
            return ()
        hint = "write env: [NAME, OTHER_NAME]; env() in a pipeline reads these and no others"
        if not isinstance(node, Items):
            self._error("PZ0101", "env", f"env must be a list of variable names, got {shown_node(node)}", hint)
            return ()
        names: list[str] = []
        for item in node.items:
            if isinstance(item, Text) and _VARIABLE.fullmatch(item.text):
                names.append(item.text)
                continue
            where = Where(FILE, item.line)  # the item is not shown: a value may have been written with its name
            self._problems.error("PZ0101", "env holds an item that cannot name a variable", where=where, hint=hint)
        return tuple(dict.fromkeys(names))

    def vars(self, environ: Mapping[str, str]) -> dict[str, Value]:
        node = self._block.get("vars")
        if node is None or node.blank:
            return {}
        if not isinstance(node, Block):
            what = f"vars must be a mapping of names to values, got {shown_node(node)}"
            self._error("PZ0102", "vars", what, "write vars: {name: value}")
            return {}
        return {
            key: interpolate(entry.node, environ, path=f"vars.{key}", file=FILE, problems=self._problems)
            for key, entry in node.fields.items()
        }

    def variables(self) -> frozenset[str]:
        node = self._block.get("vars")
        return frozenset() if node is None else frozenset(variables(node))

    def outside_vars(self) -> frozenset[str]:
        node = self._block.get("vars")
        if not isinstance(node, Block):
            return frozenset()
        return frozenset(key for key, entry in node.fields.items() if references(entry.node))

    def drift(self) -> str:
        node = self._block.get("on_source_drift")
        if node is None or node.blank:
            return DRIFT_WORDS[0]
        word = node.text if isinstance(node, Text) else ""
        if word in DRIFT_WORDS:
            return word
        self._error(
            "PZ0126",
            "on_source_drift",
            f"on_source_drift cannot be {shown_node(node)}",
            f"{did_you_mean(word, DRIFT_WORDS)}write one of {one_of(DRIFT_WORDS)}",
        )
        return DRIFT_WORDS[0]

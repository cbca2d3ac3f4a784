"""Read and write declarations: one parser for ``connections.yml`` and for the template calls.

Option names are the same on both surfaces, so moving a declaration between them is cut and paste.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.errors import Problems, PzError, Where
from pz_core.plugins.registry import Registry
from pz_core.project.blocks import Place, read_columns, read_retry, read_sync
from pz_core.project.model import ReadDeclaration, WriteDeclaration
from pz_core.project.shapes import did_you_mean, one_of, shown
from pz_core.project.yaml import printed
from pz_core.values import Value

Surface = Literal["yaml", "call"]

READ_KEYS = ("columns", "sync", "retry")
WRITE_KEYS = ("strategy", "keys", "duplicates", "on_delete", "schema_policy", "retry")
DUPLICATES = ("accept", "refuse")
ON_DELETE = ("delete", "soft", "ignore")

_RETIRED_AT_SINK = {
    "mode": "strategy",
    "accept_duplicates": "duplicates: 'accept'",
    "write": "the options themselves, such as strategy: 'merge', keys: ['id']",
}


def read_declaration(
    values: Mapping[str, Value],
    *,
    subject: str,
    where: Where,
    surface: Surface,
    problems: Problems,
    registry: Registry,
    lines: Mapping[str, int] | None = None,
) -> ReadDeclaration:
    """The read side of an entity, from a ``read:`` block or from the named arguments of ``source()``.

    Args:
        values: what was written.
        subject: ``connection.entity``.
        where: place of the block or of the call.
        surface: where it was written; decides on wording, and on the refusals that only a call knows.
        problems: gets every fault.
        registry: what is installed.
        lines: line of each key, where they are known.
    """
    side = _Side(values, subject, where, surface, "source", "read", problems, lines)
    side.refuse_common()
    side.refuse_incremental()
    columns = sync = retry = None
    if side.given("columns"):
        columns = read_columns(values["columns"], lead=side.lead, where=side.inside("columns"), problems=problems)
    if side.given("sync"):
        sync = read_sync(values["sync"], lead=side.lead, where=side.inside("sync"), problems=problems)
    if side.given("retry"):
        retry = read_retry(values["retry"], lead=side.lead, where=side.inside("retry"), problems=problems)
    refused = (*READ_KEYS, "rate_limit", "schema", "table", "incremental")
    options = side.rest((*refused, "max_concurrency") if surface == "call" else refused)
    return ReadDeclaration(options, columns, sync, retry, where, lines=dict(lines or {}))


def write_declaration(
    values: Mapping[str, Value],
    *,
    subject: str,
    where: Where,
    surface: Surface,
    problems: Problems,
    registry: Registry,
    lines: Mapping[str, int] | None = None,
) -> WriteDeclaration:
    """The write side of an entity, from a ``write:`` block or from the named arguments of ``sink()``.

    Arguments are those of :func:`read_declaration`. At a call, an option one edit away from one of pz's own draws the
    warning PZ0208 and stays a connector option.
    """
    side = _Side(values, subject, where, surface, "sink", "write", problems, lines)
    side.refuse_common()
    refused = [*WRITE_KEYS, "rate_limit", "schema", "table"]
    if surface == "call":
        side.refuse_retired()
        refused += [*_RETIRED_AT_SINK, "input", "max_concurrency"]
    strategy = side.strategy(registry)
    keys = side.keys()
    duplicates = side.word("duplicates", DUPLICATES)
    on_delete = side.word("on_delete", ON_DELETE)
    if on_delete is not None:
        side.check_on_delete(on_delete, strategy, registry)
    policy = side.word("schema_policy", SCHEMA_POLICIES)
    retry = None
    if side.given("retry"):
        retry = read_retry(values["retry"], lead=side.lead, where=side.inside("retry"), problems=problems)
    options = side.rest(refused)
    if surface == "call":
        side.warn_near_misses(options)
    return WriteDeclaration(
        options, strategy, keys, duplicates, on_delete, policy, retry, where, lines=dict(lines or {})
    )


class _Side:
    """One declaration while it is read."""

    def __init__(
        self,
        values: Mapping[str, Value],
        subject: str,
        where: Where,
        surface: Surface,
        call: str,
        block: str,
        problems: Problems,
        lines: Mapping[str, int] | None,
    ) -> None:
        self._values = values
        self._where = where
        self._surface = surface
        self._problems = problems
        self._lines = lines or {}
        connection, _, self._entity = subject.partition(".")
        self._is_call = surface == "call"
        self.lead = f"{call}('{connection}', '{self._entity}')" if self._is_call else f"{subject} {block}"

    def at(self, key: str) -> Where:
        """The place of a key."""
        return Where(self._where.file, self._lines.get(key, self._where.line), self._where.node)

    def inside(self, block: str) -> Place:
        """Gives the place of a key inside one of the blocks."""

        def place(key: str | None) -> Where:
            nested = f"{block}.{key}"
            return self.at(nested if key is not None and nested in self._lines else block)

        return place

    def given(self, key: str) -> bool:
        """Whether a key was written (a key of YAML without a body is left out before it comes here)."""
        return key in self._values

    def rest(self, owned: Sequence[str]) -> dict[str, Value]:
        """The options that are none of pz's own, sorted by name."""
        return {key: self._values[key] for key in sorted(self._values) if key not in owned}

    def error(self, code: str, key: str, what: str, hint: str) -> None:
        self._problems.error(code, f"{self.lead}: {what}", where=self.at(key), hint=hint)

    # --- what is refused ----------------------------------------------------------------------------------------

    def refuse_common(self) -> None:
        if "rate_limit" in self._values:
            self.error(
                "PZ0318",
                "rate_limit",
                "rate_limit belongs to the connection",
                "move rate_limit to the connection in connections.yml, beside connector:",
            )
        if self._is_call and "max_concurrency" in self._values:
            self.error(
                "PZ0122",
                "max_concurrency",
                "max_concurrency belongs to the connection",
                "move max_concurrency to the connection in connections.yml, beside connector:",
            )
        names = [key for key in ("schema", "table") if key in self._values]
        if not names:
            return
        joined = self._joined()
        keys = " and ".join(f"{name}:" for name in names)
        if joined == self._entity:
            hint = f"delete {keys}; the entity's name '{self._entity}' says it all"
        else:
            hint = f"rename the entity to '{joined}' and delete {keys}"
        self.error(
            "PZ0348", names[0], f"{' and '.join(names)} cannot be given; the entity's name carries its schema", hint
        )

    def _joined(self) -> str:
        qualifier, _, last = self._entity.rpartition(".")
        schema, table = self._values.get("schema"), self._values.get("table")
        schema = printed(schema) if isinstance(schema, (str, int, float)) else ""
        table = printed(table) if isinstance(table, (str, int, float)) else ""
        schema, table = schema.strip() or qualifier, table.strip() or last
        return f"{schema}.{table}" if schema else table

    def refuse_incremental(self) -> None:
        if "incremental" not in self._values:
            return
        old = self._values["incremental"]
        body: dict[str, Value] = {"mode": "incremental", "cursor": "<cursor column>"}
        if isinstance(old, Mapping):
            body |= {key: old[key] for key in ("cursor", "max_window", "initial", "until") if key in old}
        elif isinstance(old, str) and old:
            body["cursor"] = old
        spell = _call_literal if self._is_call else _plain_literal
        text = ", ".join(f"{key}: {spell(value)}" for key, value in body.items())
        self.error(
            "PZ0332", "incremental", "incremental is not read any more", f"write sync: {{ {text} }} in its place"
        )

    def refuse_retired(self) -> None:
        for key, replacement in _RETIRED_AT_SINK.items():
            if key in self._values:
                self.error("PZ0333", key, f"{key} is not an option of sink() any more", f"write {replacement} instead")
        if "input" in self._values:
            self.error(
                "PZ0112",
                "input",
                "input is not an option of sink() any more",
                "remove it; the query after INSERT INTO is what the pipeline loads",
            )

    # --- what pz owns on the write side -------------------------------------------------------------------------

    def strategy(self, registry: Registry) -> str | None:
        if not self.given("strategy"):
            return None
        value = self._values["strategy"]
        known = registry.names("strategy")
        if isinstance(value, str) and value in known:
            return value
        hint = f"strategies: {one_of(known)}"
        if isinstance(value, str):
            offer = registry.offer("strategy", value)
            if offer is not None:
                hint = registry.missing("strategy", value).hint or hint
            else:
                hint = f"{did_you_mean(value, known)}{hint}"
        self.error("PZ0334", "strategy", f"strategy {shown(value)} is not known; known are {one_of(known)}", hint)
        return None

    def keys(self) -> tuple[str, ...]:
        if not self.given("keys"):
            return ()
        value = self._values["keys"]
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in value):
            return tuple(str(item) for item in value)
        got = shown(value)
        if isinstance(value, (list, tuple)):
            wrong = next(item for item in value if not (isinstance(item, str) and item.strip()))
            got = f"a list that holds {shown(wrong)}"
        example = "keys: ['id']" if self._is_call else "keys: [id]"
        self.error("PZ0101", "keys", f"keys must be a list of column names, got {got}", f"write {example}")
        return ()

    def word(self, key: str, allowed: Sequence[str]) -> str | None:
        if not self.given(key):
            return None
        value = self._values[key]
        if isinstance(value, str) and value in allowed:
            return value
        near = did_you_mean(value, allowed) if isinstance(value, str) else ""
        self.error("PZ0334", key, f"{key} cannot be {shown(value)}", f"{near}{key} takes {one_of(allowed)}")
        return None

    def check_on_delete(self, value: str, strategy: str | None, registry: Registry) -> None:
        if strategy is None and self.given("strategy"):
            return  # the strategy itself was refused
        if strategy == "merge":
            return
        if strategy is not None:
            try:
                if registry.load("strategy", strategy).traits.takes_changes:
                    return
            except PzError as error:
                self._problems.add(error.at(self.at("strategy")) if error.where == Where() else error)
                return
        self.error(
            "PZ0334",
            "on_delete",
            f"on_delete '{value}' needs strategy merge, and the strategy is {strategy or 'append (the default)'}",
            "set strategy to merge and give its keys, or remove on_delete",
        )

    def warn_near_misses(self, options: Mapping[str, Value]) -> None:
        for key in options:
            meant = next((owned for owned in WRITE_KEYS if _near(key, owned)), None)
            if meant is not None:
                self._problems.warn(
                    "PZ0208",
                    f"{self.lead}: option '{key}' is passed to the connector; pz's own option is '{meant}'",
                    where=self.at(key),
                    hint=f"write {meant} if that was meant",
                )


def _near(typed: str, owned: str) -> bool:
    """Whether two names are equal but for case, or one insertion, deletion or substitution apart."""
    if typed.lower() == owned:
        return True
    if abs(len(typed) - len(owned)) > 1:
        return False
    start = 0
    while start < min(len(typed), len(owned)) and typed[start] == owned[start]:
        start += 1
    rest, other = typed[start:], owned[start:]
    return rest[1:] == other[1:] or rest[1:] == other or rest == other[1:]


def _plain_literal(value: Value) -> str:
    return printed(value) if isinstance(value, (str, int, float)) else json.dumps(value, default=str)


def _call_literal(value: Value) -> str:
    return f"'{value}'" if isinstance(value, str) else _plain_literal(value)

"""What each dataset and each output is declared to be: YAML or the call, never both, never merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from pz_core.errors import Problems, PzError, Where
from pz_core.project.model import Project, ReadDeclaration, WriteDeclaration

if TYPE_CHECKING:
    from pz_core.compile.rendered import Rendered, SinkCall, SourceCall
    from pz_core.plugins import Registry

#: A dataset or an output: connection and entity, as spelled.
Key = tuple[str, str]

DEFAULT_STRATEGY = "append"
DEFAULT_SCHEMA_POLICY = "fail_on_change"


class Read(Struct, frozen=True):
    """How a dataset is read; ``where`` is the place of its declaration, or of its first call where it has none."""

    connection: str
    entity: str
    declaration: ReadDeclaration
    where: Where

    @property
    def dataset(self) -> str:
        """``connection.entity``."""
        return f"{self.connection}.{self.entity}"

    def at(self, key: str) -> Where:
        """The place of a key of the declaration, or of the declaration where the key's own is not known."""
        return _place_of(self, key)


class Write(Struct, frozen=True):
    """How an output is written, its defaults filled in; ``pipeline`` is ``None`` while nothing loads it."""

    connection: str
    entity: str
    declaration: WriteDeclaration
    where: Where
    pipeline: str | None = None

    @property
    def output(self) -> str:
        """``connection.entity``."""
        return f"{self.connection}.{self.entity}"

    def at(self, key: str) -> Where:
        """The place of a key of the declaration, or of the declaration where the key's own is not known."""
        return _place_of(self, key)

    @property
    def strategy(self) -> str:
        """The strategy, ``append`` where none is written."""
        return self.declaration.strategy or DEFAULT_STRATEGY


def _place_of(side: Read | Write, key: str) -> Where:
    line = side.declaration.lines.get(key)
    return side.where if line is None else Where(side.where.file, line)


def find_reads(project: Project, rendered: Sequence[Rendered]) -> dict[Key, Read]:
    """Every dataset that YAML declares or a pipeline calls, sorted."""
    found: dict[Key, Read] = {}
    for connection in project.connections.values():
        for entity in connection.entities.values():
            if entity.read is not None:
                key = (connection.name, entity.name)
                found[key] = Read(*key, entity.read, _place(entity.read.where, entity.where))
    bare: dict[Key, Read] = {}
    for call in _source_calls(rendered):
        key = (call.connection, call.entity)
        if call.declaration is None:
            bare.setdefault(key, Read(*key, ReadDeclaration(where=call.where), call.where))
        else:
            found.setdefault(key, Read(*key, call.declaration, call.where))
    return dict(sorted({**bare, **found}.items()))


def find_writes(project: Project, rendered: Sequence[Rendered]) -> dict[Key, Write]:
    """Every output that YAML declares or a pipeline loads, sorted; two pipelines of one output are told elsewhere."""
    found: dict[Key, Write] = {}
    for connection in project.connections.values():
        for entity in connection.entities.values():
            if entity.write is not None:
                key = (connection.name, entity.name)
                found[key] = Write(*key, entity.write, _place(entity.write.where, entity.where))
    for item in rendered:
        for call in item.sinks:
            key = (call.connection, call.entity)
            known = found.get(key)
            if known is None:
                declaration = call.declaration or WriteDeclaration(where=call.where)
                found[key] = Write(*key, declaration, call.where, item.pipeline.name)
            elif known.pipeline is None:
                found[key] = structs.replace(known, pipeline=item.pipeline.name)
    return dict(sorted(found.items()))


def _place(first: Where, second: Where) -> Where:
    return first if first != Where() else second


def _source_calls(rendered: Iterable[Rendered]) -> Iterable[SourceCall]:
    for item in rendered:
        yield from item.sources


# --- two surfaces ----------------------------------------------------------------------------------------------------


def refuse_two_surfaces(project: Project, rendered: Sequence[Rendered], problems: Problems) -> None:
    """PZ0341 for every call with options of a side that ``connections.yml`` declares too; both directions at once."""
    for item in rendered:
        for direction, calls in (("read", item.sources), ("write", item.sinks)):
            seen: set[Key] = set()
            for call in calls:
                key = (call.connection, call.entity)
                declared = _yaml_side(project, call, direction)
                if call.declaration is None or declared is None or key in seen:
                    continue
                seen.add(key)
                problems.error(
                    "PZ0341",
                    f"the {direction} options of {call.connection}.{call.entity} stand both at the call in pipeline "
                    f"'{item.pipeline.name}' and in {_place(declared, Where(file='connections.yml'))}",
                    where=call.where,
                    hint=f"keep one of them: move all {direction} options to the call, or to "
                    f"{call.connection}: entities: {call.entity}: {direction}: in connections.yml",
                )
        _refuse_disagreement(item.sources, problems)


def _yaml_side(project: Project, call: SourceCall | SinkCall, direction: str) -> Where | None:
    connection = project.connections.get(call.connection)
    entity = connection.entities.get(call.entity) if connection else None
    side = None if entity is None else entity.read if direction == "read" else entity.write
    return None if side is None else side.where


def refuse_disagreeing_calls(rendered: Sequence[Rendered], problems: Problems) -> None:
    """PZ0341 where two calls of one dataset carry options that differ, wherever they stand."""
    _refuse_disagreement([call for item in rendered for call in item.sources], problems)


def _refuse_disagreement(calls: Iterable[SourceCall], problems: Problems) -> None:
    first: dict[Key, SourceCall] = {}
    for call in calls:
        if call.declaration is None:
            continue
        known = first.setdefault((call.connection, call.entity), call)
        if known is not call and _content(known) != _content(call):
            problems.error(
                "PZ0341",
                f"two source() calls declare {call.connection}.{call.entity} with different options; the other one "
                f"is at {known.where}",
                where=call.where,
                hint="give the options at one of the calls, or in connections.yml, and leave the others without any",
            )


def _content(call: SourceCall) -> ReadDeclaration | None:
    return None if call.declaration is None else replace(call.declaration, where=Where())


# --- names -----------------------------------------------------------------------------------------------------------


def refuse_unknown_targets(project: Project, rendered: Sequence[Rendered], problems: Problems) -> None:
    """PZ0201 for ``ref()`` of no pipeline and ``source()`` of no connection; PZ0204 and PZ0205 for ephemerals."""
    pipelines = {p.name: p for p in project.pipelines}
    for item in rendered:
        name = item.pipeline.name
        ephemeral = item.pipeline.sidecar.materialization == "ephemeral"
        for ref in _once((r.name, r) for r in item.refs):
            target = pipelines.get(ref.name)
            if target is None:
                problems.error(
                    "PZ0201",
                    f"pipeline '{name}' refs '{ref.name}', and there is no such pipeline",
                    where=ref.where,
                    hint=_did_you_mean(ref.name, pipelines)
                    or f"add pipelines/{ref.name}.sql, or read a dataset with source()",
                )
            elif ephemeral and target.sidecar.materialization == "ephemeral":
                itself = "itself" if ref.name == name else f"'{ref.name}', which is ephemeral too"
                problems.error(
                    "PZ0204",
                    f"ephemeral pipeline '{name}' refs {itself}",
                    where=ref.where,
                    hint=f"make '{ref.name}' a table or a view, or write its query out in '{name}'"
                    if ref.name != name
                    else "a query cannot read its own result",
                )
        for call in _once(((c.connection, c.entity), c) for c in item.sources):
            if call.connection not in project.connections:
                problems.error(
                    "PZ0201",
                    f"pipeline '{name}' reads {call.connection}.{call.entity}, and there is no connection "
                    f"'{call.connection}'",
                    where=call.where,
                    hint=_connection_hint(call.connection, project),
                )
        checks = item.pipeline.sidecar.checks
        if ephemeral and checks:
            problems.error(
                "PZ0205",
                f"ephemeral pipeline '{name}' has {len(checks)} check{'s' if len(checks) > 1 else ''}, and no rows "
                f"of its own to check",
                where=_place(checks[0].where, item.pipeline.sidecar.where),
                hint="make it a table or a view, or move the checks to a pipeline that refs it",
            )


def refuse_unbound_sinks(project: Project, rendered: Sequence[Rendered], problems: Problems) -> None:
    """PZ0201 for ``sink()`` of no connection, PZ0206 for an output that more than one pipeline loads."""
    claims: dict[Key, list[tuple[str, SinkCall]]] = {}
    for item in rendered:
        for call in item.sinks:
            claims.setdefault((call.connection, call.entity), []).append((item.pipeline.name, call))
            if call.connection not in project.connections:
                problems.error(
                    "PZ0201",
                    f"pipeline '{item.pipeline.name}' loads {call.connection}.{call.entity}, and there is no "
                    f"connection '{call.connection}'",
                    where=call.where,
                    hint=_connection_hint(call.connection, project),
                )
    for (connection, entity), claimants in sorted(claims.items()):
        if len(claimants) > 1:
            claimants.sort(key=lambda c: c[0])
            problems.error(
                "PZ0206",
                f"{connection}.{entity} is loaded by {len(claimants)} pipelines: {', '.join(n for n, _ in claimants)}",
                where=claimants[0][1].where,
                hint="keep one sink() of it; to load several results, UNION them in one pipeline",
            )


def _once(pairs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
    # The first of each key, in the order of the calls.
    made: dict[Any, Any] = {}
    for key, item in pairs:
        made.setdefault(key, item)
    return made.values()


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    close = get_close_matches(name, sorted(known), n=1)
    return f"did you mean '{close[0]}'?" if close else None


def _connection_hint(name: str, project: Project) -> str:
    stub = f"add to connections.yml: {name}: {{connector: <name of a connector>}}"
    meant = _did_you_mean(name, project.connections)
    return f"{meant} Otherwise {stub}" if meant else stub


def refuse_second_reader(readers: Mapping[Key, Sequence[str]], reads: Mapping[Key, Read], problems: Problems) -> None:
    """PZ0349 for a dataset that more than one pipeline reads.

    Args:
        readers: dataset -> sorted names of the pipelines that read it, by themselves or through an ephemeral.
        reads: the datasets, for their places.
        problems: collects the faults.
    """
    for (connection, entity), names in sorted(readers.items()):
        if len(names) > 1:
            staging = f"stg_{connection}_{entity.replace('.', '_')}"
            problems.error(
                "PZ0349",
                f"{connection}.{entity} is read by {len(names)} pipelines: {', '.join(names)}",
                where=reads[(connection, entity)].where,
                hint=f"read it in one pipeline, for example {staging}, and let the others ref('{staging}')",
            )


# --- strategies ------------------------------------------------------------------------------------------------------


class Strategies:
    """Strategy classes by name, loaded once; one that cannot be loaded is told once and then ``None``."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self._registry = registry
        self._problems = problems
        self._known: dict[str, Any] = {}

    def get(self, name: str, where: Where) -> Any | None:
        """The class of a strategy, for its ``traits``, ``options`` and ``default_schema_policy``."""
        if name not in self._known:
            try:
                self._known[name] = self._registry.load("strategy", name)
            except PzError as error:
                self._known[name] = None
                self._problems.add(error if str(error.where) else error.at(where))
        return self._known[name]

    def schema_policy(self, write: Write) -> str:
        """The policy of an output: as written, else the strategy's own default, else ``fail_on_change``."""
        if write.declaration.schema_policy is not None:
            return write.declaration.schema_policy
        strategy = self.get(write.strategy, write.where)
        return str(getattr(strategy, "default_schema_policy", DEFAULT_SCHEMA_POLICY))


def check_keys(writes: Iterable[Write], strategies: Strategies, problems: Problems) -> None:
    """PZ0209 for a strategy that needs keys and has none, PZ0211 for keys that it cannot use."""
    for write in writes:
        strategy = strategies.get(write.strategy, write.where)
        if strategy is None:
            continue
        keys = write.declaration.keys
        if strategy.traits.takes_keys and not keys:
            problems.error(
                "PZ0209",
                f"{write.output} is loaded with strategy '{write.strategy}', which needs keys, and has none",
                where=write.at("strategy"),
                hint="add keys: with the list of columns that identify a row, such as keys: ['id']",
            )
        elif keys and not strategy.traits.takes_keys:
            problems.error(
                "PZ0211",
                f"{write.output} has keys ({', '.join(keys)}), which strategy '{write.strategy}' does not use",
                where=write.at("keys"),
                hint="remove the keys, or choose a strategy that works by key, such as merge",
            )

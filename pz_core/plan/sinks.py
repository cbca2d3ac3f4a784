"""How a sink is written: its load mode, its tier, and what a second delivery would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pz_core.compile.model import SinkNode, SourceNode
from pz_core.contract.capabilities import LoadMode
from pz_core.contract.connector import (
    ConnectorError,
    NativeCopy,
    NativeStream,
    NativeTarget,
    PlacingConnector,
    WriteSpec,
)
from pz_core.contract.engine import DrainTask, NodeRef, Tier, deletes_of
from pz_core.contract.ledger import LedgerClaim
from pz_core.errors import PzError
from pz_core.plan.ledgers import incremental_above, keeps_ledger, ledger_claim, looks_back
from pz_core.plan.model import NodePlan, imported_ahead, loaded_ahead
from pz_core.plan.retries import retry_policy
from pz_core.plan.sources import Context, at_plan_time, refuse_long_name
from pz_core.plan.specs import has_calendar_token, split_options, write_spec
from pz_core.plugins import Registry
from pz_core.values import Value

ONCE, AT_LEAST_ONCE = "effectively once", "at least once"


def plan_sink(context: Context, node: SinkNode, registry: Registry, feeds: frozenset[str]) -> NodePlan:
    """Plan a write; what is refused goes to the context.

    Args:
        context: the plan in the making.
        node: the sink.
        registry: where strategies are found.
        feeds: datasets above the sink that a connector resumes by a token of its own.
    """
    refusal: PzError | None = None
    guarantee, on_retry = None, None
    spec = WriteSpec(entity=node.entity, strategy=node.strategy, keys=node.keys)
    own: Mapping[str, Value] = {}
    claim: LedgerClaim | None = None
    tier: Tier = "universal"
    native: NativeCopy | NativeTarget | NativeStream | None = None
    imports: tuple[str, ...] = ()
    try:
        strategy: Any = registry.load("strategy", node.strategy)
        guarantee, on_retry = promise(node, strategy, told=bool(incremental_above(context.graph, node)))
        claim = ledger_claim(context.graph, node, strategy)
        _refuse_feeds(context, node, strategy, feeds)
        target: Any = context.connectors.target(node.connection)
        refuse_long_name(node, target, node.name)
        options, own = split_options(node, target, strategy)
        mode = load_mode(strategy, target)
        _refuse_unable(context, node, target, strategy)
        if mode is None:
            how = f"refused: strategy '{node.strategy}'"  # told once a connection and strategy by the planner
        else:
            spec = write_spec(node, options, mode, context.graph.constants)
            tier, how, native = _tier(context, node, target, spec)
            imports = imported_ahead(target, spec)
            if guarantee == AT_LEAST_ONCE and tier == "universal" and target.capabilities.checkpointable_writes:
                on_retry = f"after a failure it goes on behind the rows that the target confirmed; {on_retry}"
    except PzError as error:
        refusal = context.refuse(node.id, at_plan_time(error, node, node.name))
        how = f"refused: {error.code}"
    retry = None
    try:
        retry = retry_policy(context.graph.project, node)
    except PzError as error:
        context.problems.add(error)
    return NodePlan(
        id=node.id,
        kind=node.kind.value,
        name=node.name,
        strategy="native_copy" if tier == "native" else "arrow_stream",
        reason=f"{how}; strategy={node.strategy}",
        task=DrainTask(
            NodeRef(node.id, node.name),
            node.pipeline,
            node.connection,
            node.connector,
            tier,
            spec,
            own,
            _origin(context, node),
            ledger=claim,
            deletes=_deletes(context, node),
        ),
        guarantee=guarantee,
        on_retry=on_retry,
        retry=retry,
        refusal=refusal,
        ahead=() if native is None else loaded_ahead(native.setup),
        imports=imports,
        rereads=isinstance(native, NativeTarget),
    )


def load_mode(strategy: Any, target: Any) -> LoadMode | None:
    """The best way of a strategy that the connector's targets take, ``None`` if there is none."""
    for mode in strategy.traits.load_modes:
        if mode in target.capabilities.load_modes:
            found: LoadMode = mode
            return found
    return None


def promise(node: SinkNode, strategy: Any, *, told: bool) -> tuple[str, str]:
    """The delivery guarantee of a sink, and what a second delivery of the same batch would do.

    Args:
        node: the sink.
        strategy: its strategy.
        told: whether a batch is told from others by the cursor of an incremental read.
    """
    if strategy.traits.idempotent:
        return ONCE, "a second delivery of the same batch leaves the same content"
    if keeps_ledger(node, strategy) and told:
        return ONCE, "a batch that the target already has is skipped, by the ledger that it keeps"
    if keeps_ledger(node, strategy):
        return AT_LEAST_ONCE, "every run adds all rows again; a further attempt of one run adds none"
    return AT_LEAST_ONCE, "a second delivery of the same batch adds its rows again"


def lacking(context: Context, nodes: list[SinkNode], registry: Registry) -> list[PzError]:
    """One PZ0324 for each connection and strategy that do not go together, naming all outputs concerned."""
    groups: dict[tuple[str, str], list[SinkNode]] = {}
    for node in nodes:
        try:
            strategy, target = registry.load("strategy", node.strategy), context.connectors.target(node.connection)
        except PzError:
            continue
        if load_mode(strategy, target) is None:
            groups.setdefault((node.connection, node.strategy), []).append(node)
    return [
        PzError(
            "PZ0324",
            f"{', '.join(n.name for n in group)}: connector '{group[0].connector}' does not take strategy '{strategy}'",
            where=group[0].where,
            hint=_alternatives(context, group[0], registry),
        )
        for (_, strategy), group in groups.items()
    ]


def sharing(context: Context, plans: list[NodePlan]) -> list[PzError]:
    """One PZ0206 for each place that several outputs would write, whatever names and connections lead there."""
    graph = context.graph
    places: dict[tuple[str, str], list[SinkNode]] = {}
    for plan in plans:
        node = graph.node(plan.id)
        if not isinstance(node, SinkNode) or not isinstance(plan.task, DrainTask) or plan.refusal is not None:
            continue
        try:
            connector = context.connectors.instance(node.connection)
            if isinstance(connector, PlacingConnector):
                places.setdefault((node.connector, connector.write_place(plan.task.write)), []).append(node)
        except Exception:  # noqa: BLE001 - a connector that cannot say has said its faults elsewhere
            continue
    return [
        PzError(
            "PZ0206",
            f"the outputs {' and '.join(sorted(n.name for n in nodes))} are one place, and each would undo the other "
            f"(pipelines {', '.join(sorted({n.pipeline for n in nodes}))})",
            where=min((n.where for n in nodes), key=lambda where: where.sort_key),
            hint="write one of them to another entity, path or connection, or combine the pipelines",
        )
        for nodes in places.values()
        if len(nodes) > 1
    ]


def _alternatives(context: Context, node: SinkNode, registry: Registry) -> str:
    target = context.connectors.target(node.connection)
    fitting: list[str] = []
    for name in registry.names("strategy"):
        try:
            if load_mode(registry.load("strategy", name), target) is not None:
                fitting.append(name)
        except PzError:
            continue  # a broken plugin is no way out
    return f"'{node.connector}' takes the strategies {', '.join(fitting)}" if fitting else "write to another connection"


def _refuse_unable(context: Context, node: SinkNode, target: Any, strategy: Any) -> None:
    """Refusals that follow from the connector's capabilities alone."""
    able, problems = target.capabilities, context.problems
    named = f"{node.name}: connector '{node.connector}'"
    if node.schema_policy not in able.schema_policies:
        honoured = ", ".join(sorted(able.schema_policies)) or "none"
        problems.error(
            "PZ0324",
            f"{named} does not honour schema_policy '{node.schema_policy}' (strategy '{node.strategy}')",
            where=node.where,
            hint=f"it honours: {honoured}",
        )
    if node.duplicates == "refuse" and not able.ledger:
        problems.error(
            "PZ0324",
            f"{named} cannot keep the ledger that duplicates: 'refuse' needs (strategy '{node.strategy}')",
            where=node.where,
            hint="write duplicates: 'accept', or use a strategy with keys, or write to a database that keeps a ledger",
        )
    elif (again := looks_back(context.graph, node, strategy)) is not None:
        problems.add(again)
    if node.on_delete in ("delete", "soft") and not able.apply_deletes:
        problems.error(
            "PZ0339",
            f"{named} cannot apply deletes (on_delete: '{node.on_delete}')",
            where=node.where,
            hint="use on_delete: 'ignore', or write to a connector that applies deletes",
        )
    if "partition_by" in node.options and not able.column_partitioned_writes:
        problems.error(
            "PZ0314", f"{named} does not understand partition_by", where=node.where, hint="drop partition_by"
        )
    if has_calendar_token(node.options) and not able.path_templating:
        problems.error(
            "PZ0314",
            f"{named} does not understand calendar tokens in path",
            where=node.where,
            hint="write the path without {yyyy}, {MM}, …",
        )


def _refuse_feeds(context: Context, node: SinkNode, strategy: Any, feeds: frozenset[str]) -> None:
    if not feeds:
        return
    named, traits = ", ".join(sorted(feeds)), strategy.traits
    if traits.needs_complete_batch:
        context.problems.error(
            "PZ0335",
            f"{node.name}: strategy '{node.strategy}' needs all rows, but {named} delivers only what is new",
            where=node.where,
            hint="use strategy: 'merge' with keys",
        )
    elif not traits.idempotent and node.duplicates == "refuse":
        context.problems.error(
            "PZ0214",
            f"{node.name}: duplicates: 'refuse' cannot hold with strategy '{node.strategy}', because {named} goes on "
            "from a token, and nothing tells which rows lay before it",
            where=node.where,
            hint="accept rows delivered twice after a failure with duplicates: 'accept', or use strategy: 'merge' "
            "with keys",
        )
    elif not traits.idempotent and node.duplicates is None:
        context.problems.error(
            "PZ0214",
            f"{node.name}: strategy '{node.strategy}' may deliver rows of {named} twice after a failure",
            where=node.where,
            hint="accept that with duplicates: 'accept', or use strategy: 'merge' with keys",
        )


def _tier(
    context: Context, node: SinkNode, target: Any, spec: WriteSpec
) -> tuple[Tier, str, NativeCopy | NativeTarget | NativeStream | None]:
    able = target.capabilities
    if context.graph.project.engine.force_universal:
        if not able.universal_write:
            raise PzError(
                "PZ0312",
                f"{node.name}: engine.force_universal is on, and connector '{node.connector}' writes natively only",
                where=node.where,
                hint="turn engine.force_universal off, or write to another connector",
            )
        return "universal", "record batches because engine.force_universal is on", None
    if not able.native_write:
        return "universal", f"record batches because connector '{node.connector}' has no native write", None
    native = _probe(context, node, spec)
    if native is not None:
        return "native", f"DuckDB writes by {native.mechanism}", native
    if not able.universal_write:
        raise PzError(
            "PZ0353",
            f"{node.name}: connector '{node.connector}' is native only and has no native write for these options",
            where=node.where,
            hint="change the write's options",
        )
    told = f"record batches because connector '{node.connector}' has no native write for these options"
    return "universal", told, None


def _probe(context: Context, node: SinkNode, spec: WriteSpec) -> NativeCopy | NativeTarget | NativeStream | None:
    sink = context.connectors.instance(node.connection).open_sink()
    try:
        return sink.native_write(spec)
    except PzError:
        raise
    except Exception as error:
        raise ConnectorError(
            f"connector '{node.connector}' raised {type(error).__name__} when asked for its native write",
            code="PZ0353",
            hint="this is a fault of the connector: report it to its authors, with PZ_DEBUG=1 for the details",
            cause=error,
        ) from error
    finally:
        sink.close()


def _deletes(context: Context, node: SinkNode) -> str | None:
    """The relation with the keys to delete: of the one captured dataset above."""
    if node.on_delete not in ("delete", "soft"):
        return None
    above = (context.graph.node(i) for i in context.graph.ancestors(node.id))
    captured = [n for n in above if isinstance(n, SourceNode) and n.sync is not None and n.sync.mode == "cdc"]
    return deletes_of(captured[0].relation) if len(captured) == 1 else None


def _origin(context: Context, node: SinkNode) -> str | None:
    """The one connection that all rows of a sink come from, ``None`` if it is not one."""
    graph = context.graph
    above = (graph.node(i) for i in graph.ancestors(node.id))
    connections = {n.connection for n in above if isinstance(n, SourceNode)}
    return connections.pop() if len(connections) == 1 else None

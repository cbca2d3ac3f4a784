"""How a source is read: its shape, its tier, and what its connector cannot do for it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.contract.connector import ConnectorError, NativeScan, ReadSpec
from pz_core.contract.engine import LandTask, NodeRef, Tier
from pz_core.errors import Problems, PzError
from pz_core.plan.connectors import Connectors
from pz_core.plan.model import NodePlan, imported_ahead, loaded_ahead
from pz_core.plan.pushdown import Pushdown, pushdown_of
from pz_core.plan.retries import retry_policy
from pz_core.plan.specs import has_calendar_token, read_spec
from pz_core.plan.undecided import decided_at_run

#: Read options that split a read into partitions.
_PARTITION_OPTIONS = ("files_per_partition", "partition_column", "partitions")
#: A read is split into no more parts than this, whatever ``partitions`` says.
MOST_PARTITIONS = 16
#: Codes of refusals that concern a node only if it is executed.
LOCAL_CODES = frozenset({"PZ0305", "PZ0353", "PZ0365"})


class Context(Struct, frozen=True):
    """What planning a node needs."""

    graph: Graph
    connectors: Connectors
    problems: Problems
    executed: frozenset[str]
    texts: dict[str, str] = field(default_factory=dict)
    """What :func:`pushdown_of` keeps between two calls."""

    def refuse(self, node_id: str, error: PzError) -> PzError | None:
        """Keep a refusal with the node if it is local and the node is not executed, else add it to the plan's."""
        if error.code in LOCAL_CODES and node_id not in self.executed:
            return error
        self.problems.add(error)
        return None


def at_plan_time(error: PzError, node: SourceNode | SinkNode, subject: str) -> PzError:
    """A connector's refusal of a native path as a refusal of the plan: without a better code it is PZ0353."""
    if error.code == "PZ0305" or error.code.startswith("PZ07"):
        return error  # about the connection or the plugin, not about this node
    code = "PZ0353" if error.code == "PZ0501" else error.code
    message = error.message if subject in error.message else f"{subject}: {error.message}"
    where = error.where if str(error.where) else node.where
    return PzError(code, message, where=where, hint=error.hint, cause=error.cause or error)


def refuse_long_name(node: SourceNode | SinkNode, target: Any, subject: str) -> None:
    """Refuse an entity of more than two dotted parts where two are the limit.

    Raises:
        PzError: PZ0353.
    """
    if target.capabilities.two_part_names and node.entity.count(".") > 1:
        raise PzError(
            "PZ0353",
            f"{subject}: entity '{node.entity}' has more than two dotted parts, connector '{node.connector}' takes "
            "table or schema.table",
            where=node.where,
            hint="name the database in the connection and the entity as schema.table",
        )


def plan_source(context: Context, node: SourceNode) -> NodePlan:
    """Plan a read; what is refused goes to the context."""
    refusal: PzError | None = None
    shape = declared_shape(node)
    pushed, partitions, split = Pushdown(), 1, ""
    scan: NativeScan | None = None
    imports: tuple[str, ...] = ()
    try:
        target: Any = context.connectors.target(node.connection)
        refuse_long_name(node, target, node.dataset)
        spec = read_spec(node, target, context.graph.project.name)
        shape = _shape(context, node, target, spec)
        _refuse_unable(context, node, target, shape)
        pushed = pushdown_of(context.graph, node, shape, target.capabilities, context.texts)
        spec = replace(spec, hints=pushed.hints)
        tier, how, scan = _tier(context, node, target, spec, shape)
        undecided = decided_at_run(node, spec, scan)
        imports = imported_ahead(target, spec)
        if tier == "universal" and shape not in ("feed", "cdc"):
            partitions, split = _partitions(target, spec)
    except PzError as error:
        refusal = context.refuse(node.id, at_plan_time(error, node, node.dataset))
        spec, tier, how = ReadSpec(node.entity, node.options, node.columns), "universal", f"refused: {error.code}"
        pushed, undecided = Pushdown(), {}
    retry = None
    try:
        retry = retry_policy(context.graph.project, node)
    except PzError as error:
        context.problems.add(error)
    return NodePlan(
        id=node.id,
        kind=node.kind.value,
        name=node.name,
        strategy="native_scan" if tier == "native" else "arrow_stream",
        reason=f"{how}; read={shape}{_resuming(node)}{split}",
        task=LandTask(
            NodeRef(node.id, node.name),
            node.relation,
            node.connection,
            node.connector,
            tier,
            spec,
            feed=shape in ("feed", "cdc"),
        ),
        partitions=partitions,
        columns_pushed=pushed.columns,
        predicate_pushed=pushed.hints.predicate is not None,
        read_shape=shape,
        retry=retry,
        refusal=refusal,
        decided_at_run=undecided,
        ahead=() if scan is None else loaded_ahead(scan.setup),
        imports=imports,
    )


def _partitions(target: Any, spec: ReadSpec) -> tuple[int, str]:
    """How many parts a read is asked to have, and what the plan says of them; the connector has the last word."""
    able = target.capabilities
    wanted = 1
    asked = spec.options.get("partitions")
    if able.partitioned_read and spec.options.get("partition_column") is not None and asked is not None:
        try:
            wanted = max(1, min(MOST_PARTITIONS, int(str(asked))))
        except ValueError:
            wanted = 1  # what is wrong with it is told where options are checked
    parts = f" in {wanted} partitions" if wanted > 1 else ""
    if able.stable_partitions:
        parts += "; each partition is kept once it is whole, and only missing ones are attempted again"
    return wanted, parts


def _resuming(node: SourceNode) -> str:
    """What a reader should know of how an incremental read goes on."""
    incremental = node.incremental
    if incremental is None:
        return ""
    made = ""
    if incremental.sync is not None and incremental.sync.max_window is not None:
        end = f" until {incremental.sync.until}" if incremental.sync.until else ""
        made = f" in windows of {incremental.sync.max_window}{end}"
    floors = [bound for bound in incremental.bounds if bound.op.startswith(">")]
    if all(bound.op == ">" for bound in floors):
        made += f" (a row that comes later with the last {incremental.cursor} may be missed)"
    return made


def declared_shape(node: SourceNode) -> str:
    """The read shape as far as the project says it: ``incremental cursor=<c>``, ``cdc``, else ``full``."""
    if node.incremental is not None:
        return f"incremental cursor={node.incremental.cursor}"
    if node.sync is not None and node.sync.mode == "cdc":
        return "cdc"
    return "full"


def _shape(context: Context, node: SourceNode, target: Any, spec: ReadSpec) -> str:
    shape = declared_shape(node)
    if shape == "cdc" or not target.capabilities.sync_state:
        return shape
    source = context.connectors.instance(node.connection).open_source()
    try:
        natural = source.natural_shape(ReadSpec(spec.entity, spec.options, spec.columns))
    finally:
        source.close()
    if natural == "feed" and node.incremental is not None:
        context.problems.error(
            "PZ0315",
            f"{node.dataset}: connector '{node.connector}' resumes this read by a token of its own, "
            f"so it cannot also have the cursor '{node.incremental.cursor}'",
            where=node.where,
            hint="drop the cursor (sync: or watermark()) and let the connector resume, or read another entity",
        )
    return shape if node.incremental is not None else natural


def _refuse_unable(context: Context, node: SourceNode, target: Any, shape: str) -> None:
    """Refusals that follow from the connector's capabilities alone."""
    able, problems = target.capabilities, context.problems
    named = f"{node.dataset}: connector '{node.connector}'"
    if not (able.native_read or able.universal_read):
        problems.error("PZ0353", f"{named} cannot be read from", where=node.where, hint="read from another connection")
        return
    incremental = node.incremental
    if incremental is not None and not able.bounded_window:
        window = incremental.sync is not None and incremental.sync.max_window is not None
        ceiling = any(bound.op in ("<", "<=") for bound in incremental.bounds)
        if window or ceiling:
            what = "max_window" if window else f"a ceiling on '{incremental.cursor}'"
            problems.error(
                "PZ0313",
                f"{named} cannot read up to an upper bound, which {what} needs",
                where=node.where,
                hint=f"drop {'max_window' if window else 'the upper comparison'}, or use another connector",
            )
    if has_calendar_token(node.options) and not able.path_templating:
        problems.error(
            "PZ0314",
            f"{named} does not understand calendar tokens in path",
            where=node.where,
            hint="write the path without {yyyy}, {MM}, …",
        )
    split = [name for name in _PARTITION_OPTIONS if node.options.get(name) not in (None, 1)]
    if shape in ("feed", "cdc") and able.partitioned_read and split:
        problems.error(
            "PZ0316",
            f"{node.dataset}: a {shape} read resumes at one place and cannot be split by {', '.join(split)} "
            f"({split[0]}: {node.options[split[0]]})",
            where=node.where,
            hint=f"drop {', '.join(split)}",
        )
    if shape == "cdc" and not able.change_capture:
        problems.error(
            "PZ0338",
            f"{named} cannot capture changes",
            where=node.where,
            hint="use sync: {mode: incremental, cursor: …}, or a connector that captures changes",
        )
    if "files_per_partition" in split and not able.universal_read:
        problems.error(
            "PZ0312",
            f"{named} is native only, and files_per_partition needs the universal path",
            where=node.where,
            hint="drop files_per_partition",
        )


def _tier(
    context: Context, node: SourceNode, target: Any, spec: ReadSpec, shape: str
) -> tuple[Tier, str, NativeScan | None]:
    able = target.capabilities
    if shape == "feed":
        if not able.universal_read:
            raise PzError(
                "PZ0363",
                f"{node.dataset}: connector '{node.connector}' reads natively only, and a feed resumes from a token "
                "that only a read in record batches gives",
                where=node.where,
                hint="read it in full from another connector, or with a cursor: sync: {mode: incremental, cursor: …}",
            )
        return "universal", "record batches because the read goes on from a token of its connector", None
    if shape == "cdc":
        return "universal", "record batches because changes come from a log of the place", None
    if context.graph.project.engine.force_universal:
        if not able.universal_read:
            raise PzError(
                "PZ0312",
                f"{node.dataset}: engine.force_universal is on, and connector '{node.connector}' reads natively only",
                where=node.where,
                hint="turn engine.force_universal off, or read from another connector",
            )
        return "universal", "record batches because engine.force_universal is on", None
    if not able.native_read:
        return "universal", f"record batches because connector '{node.connector}' has no native read", None
    scan = _probe(context, node, spec)
    if scan is not None:
        return "native", f"DuckDB reads by {scan.mechanism}", scan
    if not able.universal_read:
        raise PzError(
            "PZ0353",
            f"{node.dataset}: connector '{node.connector}' is native only and has no native read for these options",
            where=node.where,
            hint="change the read's options",
        )
    return (
        "universal",
        f"record batches because connector '{node.connector}' has no native read for these options",
        None,
    )


def _probe(context: Context, node: SourceNode, spec: ReadSpec) -> NativeScan | None:
    source = context.connectors.instance(node.connection).open_source()
    try:
        return source.native_scan(spec)
    except PzError:
        raise
    except Exception as error:
        raise ConnectorError(
            f"connector '{node.connector}' raised {type(error).__name__} when asked for its native read",
            code="PZ0353",
            hint="this is a fault of the connector: report it to its authors, with PZ_DEBUG=1 for the details",
            cause=error,
        ) from error
    finally:
        source.close()

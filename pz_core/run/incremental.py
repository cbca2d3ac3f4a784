"""Incremental reads of one run: which slice is asked for, what the watermark may become, what SQL gets to see of it.

Sources: engine.md 5.2 to 5.4, config-compile.md 5.3 to 5.6, DECISIONS 4 and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pz_core.compile.cursors import cursor_family
from pz_core.compile.model import Graph, Incremental, SourceNode
from pz_core.compile.rendered import sentinel
from pz_core.compile.watermark import substitute
from pz_core.contract.capabilities import Capabilities
from pz_core.contract.engine import CursorFound, LandResult, LandTask
from pz_core.errors import Notice, PzError, Where
from pz_core.run.bounds import evaluate, typed
from pz_core.run.ledger import NO_LIMIT, Limit
from pz_core.run.slices import Slice, yaml_slice
from pz_core.run.state import Stored, Watermarks, family
from pz_core.values import CURSOR_TYPES

#: What DuckDB says of a column and a bound that have nothing in common.
_INCOMPARABLE = "Cannot compare values of type"


class SliceLanded(Struct, frozen=True):
    """A slice in staging.

    Args:
        result: of the engine.
        watermark: candidate as it is recorded, ``None`` without one.
        caught_up: whether the read has come to its end; ``None`` where it has none to come to.
        notices: what to tell.
    """

    result: LandResult
    watermark: Mapping[str, Any] | None
    caught_up: bool | None
    notices: tuple[Notice, ...]


class IncrementalReads:
    """Decides and remembers the slices of one run; safe to use from several threads.

    Args:
        graph: of the project.
        watermarks: what was stored when the run began.
        full_refresh: read everything, as if nothing were stored.
        started_at: of the run, ISO in UTC.
        capabilities: what the connector of a connection can do.
        limit: how far a dataset is read, by the ledgers of its outputs.
    """

    def __init__(
        self,
        graph: Graph,
        watermarks: Watermarks,
        *,
        full_refresh: bool,
        started_at: str,
        capabilities: Callable[[str], Capabilities],
        limit: Callable[[str], Limit] = lambda dataset: NO_LIMIT,
    ) -> None:
        self._watermarks = watermarks
        self._full_refresh = full_refresh
        self._started_at = started_at
        self._capabilities = capabilities
        self._limit = limit
        self._landed: dict[str, CursorFound] = {}
        self._bases: dict[str, Stored | None] = {}
        self._in_sql: dict[str, tuple[str, Incremental]] = {}
        for node in graph.nodes:
            if isinstance(node, SourceNode) and node.incremental is not None and node.incremental.in_sql:
                text = sentinel(node.connection, node.entity)
                self._in_sql[node.dataset] = (text, node.incremental)

    def land(self, source: SourceNode, task: LandTask, land: Callable[[LandTask], LandResult]) -> SliceLanded:
        """Land the slice of an incremental dataset that this run is to read.

        Args:
            source: the dataset; it is incremental.
            task: as planned, without bounds.
            land: what the engine does with a task.

        Raises:
            PzError: PZ0505 if what is stored, declared, written and landed do not agree on the cursor's type.
        """
        incremental = source.incremental
        assert incremental is not None
        stored = self._stored(source.dataset)
        declared = cursor_family(incremental.type)
        if stored is not None:
            _refuse_other_cursor(source, incremental, stored, declared)
        limit = self._limit(source.dataset)
        if limit.error is not None:
            raise limit.error
        kind = declared or (limit.type if stored is None else stored.type)
        asked = _limited(self._slice(source, incremental, stored, kind), limit)
        task = replace(task, hold=limit.hold)
        try:
            result = land(self._with(source, task, asked))
        except PzError as error:
            if stored is not None and declared is None and _INCOMPARABLE in error.message:
                raise _changed_type(source, incremental, stored, error) from error
            raise
        found = _found(source, result)
        _refuse_other_type(source, incremental, found, stored, declared)
        if kind is None and incremental.in_sql and not self._full_refresh:
            # Only now is the cursor's type known. Where it makes other bounds, the first attempt read the wrong slice.
            known = _limited(self._settled(source, incremental, asked, found.type), limit)
            if (known.floor, known.ceiling, known.caught_up) != (asked.floor, asked.ceiling, asked.caught_up):
                asked = known
                result = land(self._with(source, task, asked))
                found = _found(source, result)
        self._landed[source.dataset] = found
        if limit.hold:
            return SliceLanded(result, None, None, (_held(source),))
        high = asked.high_water(found.high)
        if asked.replay and not self._full_refresh:
            high = limit.upper  # all up to there was read by the run that wrote it, whatever the source has of it now
        watermark = None if high is None else {"cursor": incremental.cursor, "type": found.type, "value": high}
        caught_up = True if asked.caught_up else False if asked.replay else asked.at_end
        return SliceLanded(result, watermark, caught_up, tuple(self._notices(source, asked, found)))

    def sql(self, text: str) -> str:
        """A pipeline's SQL with watermarks in the place of sentinels; one without any comes back untouched."""
        values: dict[str, str | None] = {}
        types: dict[str, str | None] = {}
        for dataset, (plain, incremental) in self._in_sql.items():
            if plain in text:
                stored, found = self._stored(dataset), self._landed.get(dataset)
                values[dataset] = None if stored is None else stored.value
                kind = incremental.type or (None if stored is None else stored.type)
                if kind is None and found is not None:
                    kind = found.duckdb_type if found.type == "decimal" else found.type
                types[dataset] = None if kind is None else typed(kind)
        return substitute(text, values, types, full_refresh=self._full_refresh) if values else text

    def base(self, dataset: str) -> Stored | None:
        """The watermark that a read of this run starts from."""
        return self._stored(dataset)

    def nulls(self, dataset: str) -> int:
        """Rows that landed without a value in the cursor."""
        found = self._landed.get(dataset)
        return 0 if found is None else found.nulls

    def remember(self, dataset: str, found: CursorFound, base: Stored | None) -> None:
        """Learn of rows that an earlier run has read, so that SQL sees the slice that was read then.

        Args:
            dataset: ``connection.entity``.
            found: what their cursor holds.
            base: the watermark that they were read from.
        """
        self._landed[dataset] = found
        self._bases[dataset] = base

    # --- parts ---------------------------------------------------------------------------------------------------

    def _stored(self, dataset: str) -> Stored | None:
        if dataset in self._bases:
            return self._bases[dataset]
        return None if self._full_refresh else self._watermarks.of(dataset)

    def _slice(self, source: SourceNode, incremental: Incremental, stored: Stored | None, kind: str | None) -> Slice:
        value = None if stored is None else stored.value
        if incremental.sync is not None:
            return yaml_slice(incremental.sync, kind, value, self._started_at)
        if self._full_refresh:
            return Slice(incremental.cursor, kind)
        return evaluate(source.dataset, incremental, value, kind)

    def _settled(self, source: SourceNode, incremental: Incremental, asked: Slice, kind: str) -> Slice:
        try:
            return evaluate(source.dataset, incremental, None, kind)
        except PzError as error:
            if error.code != "PZ0501":
                raise
            return asked  # the pipeline holds the same expression and will say what is wrong with it

    def _with(self, source: SourceNode, task: LandTask, asked: Slice) -> LandTask:
        exact = asked.bounds()
        pushed = exact
        if exact.lower_inclusive and not self._capabilities(source.connection).inclusive_bound:
            pushed = replace(exact, lower=None, lower_inclusive=False)
        if asked.replay and not self._capabilities(source.connection).bounded_window:
            pushed = replace(pushed, upper=None)
        return replace(task, read=replace(task.read, bounds=pushed), slice=exact)

    def _notices(self, source: SourceNode, asked: Slice, found: CursorFound) -> list[Notice]:
        where = Where(node=source.name)
        made: list[Notice] = []

        def note(text: str) -> None:
            made.append(Notice("note", f"{source.dataset}: {text}", where=where))

        if self._watermarks.unreadable(source.dataset) and not self._full_refresh:
            note("the stored watermark cannot be read; it counts as nothing stored, so the read began anew")
        if asked.caught_up:
            note("caught up: nothing is left to read up to the end of its window, and the watermark stays")
        if asked.replay:
            outputs = ", ".join(self._limit(source.dataset).outputs)
            note(f"read only as far as {outputs} has its rows already; newer rows wait for the next run")
        floor = asked.floor
        if floor is not None and floor.inclusive and not self._capabilities(source.connection).inclusive_bound:
            note("its connector takes no floor with >=, so everything was read and cut after landing")
        if found.nulls:
            rows = "1 row has" if found.nulls == 1 else f"{found.nulls} rows have"
            note(f"{rows} no value in cursor '{asked.cursor}'; loaded now, and left out by the floor of later runs")
        return made


def _limited(asked: Slice, limit: Limit) -> Slice:
    if limit.upper is None or limit.type is None:
        return asked
    return asked.up_to(limit.upper, limit.type)


def _held(source: SourceNode) -> Notice:
    message = f"{source.dataset}: not read in this run: other rows of an output that it is loaded into come first"
    return Notice("note", message, where=Where(node=source.name))


def _found(source: SourceNode, result: LandResult) -> CursorFound:
    if result.cursor is None:
        raise PzError(
            "PZ0501",
            f"{source.dataset}: the engine does not tell what landed in the cursor, so it cannot read incrementally",
            hint="use engine: duckdb, or read the dataset in full",
        )
    return result.cursor


def _refuse_other_cursor(source: SourceNode, incremental: Incremental, stored: Stored, declared: str | None) -> None:
    """PZ0505 where the stored watermark belongs to another column, or to another type of it."""
    hint = "run once with --full-refresh to begin anew, or declare the cursor as it is stored"
    if stored.cursor.casefold() != incremental.cursor.casefold():
        raise PzError(
            "PZ0505",
            f"{source.dataset}: the stored watermark is one of cursor '{stored.cursor}' ({stored.type}), "
            f"and the read goes by cursor '{incremental.cursor}'",
            hint=hint,
        )
    if declared is not None and family(stored.type) != family(declared):
        raise PzError(
            "PZ0505",
            f"{source.dataset}: cursor '{incremental.cursor}' is declared as {declared}, and its stored watermark is "
            f"a {stored.type}; a cursor can be {', '.join(CURSOR_TYPES)}",
            hint=hint,
        )


def _changed_type(source: SourceNode, incremental: Incremental, stored: Stored, error: PzError) -> PzError:
    return PzError(
        "PZ0505",
        f"{source.dataset}: cursor '{incremental.cursor}' cannot be compared with its stored watermark, "
        f"a {stored.type}: "
        f"{error.message.removeprefix(source.dataset + ': ')}",
        hint="if the column has another type now, run once with --full-refresh, or declare it under columns:",
        cause=error,
    )


def _refuse_other_type(
    source: SourceNode, incremental: Incremental, found: CursorFound, stored: Stored | None, declared: str | None
) -> None:
    """PZ0505 where the landed column is of another type than the declared or stored one."""
    for what, kind in (("declared as", declared), ("stored as", None if stored is None else stored.type)):
        if kind is not None and family(kind) != family(found.type):
            raise PzError(
                "PZ0505",
                f"{source.dataset}: cursor '{incremental.cursor}' landed as {found.duckdb_type or found.type} and is "
                f"{what} {kind}; a cursor can be {', '.join(CURSOR_TYPES)}",
                hint="declare it under columns: as what it is, and run once with --full-refresh",
            )

"""Rules of reading: every value, every shape, exact bounds, hints that change nothing, an end at any moment."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import CursorBounds, ReadHints, Source
from pz_core.contract.engine import Cancelled, Tier
from pz_core.testkit.asking import caught, refused_by_name, rows_of, rows_of_batches, word_of
from pz_core.testkit.bench import KitControl
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.corpus import arrow_table
from pz_core.testkit.rows import Rows, same_rows
from pz_core.testkit.rules import require, rule
from pz_core.values import canonical_json, quote_identifier

if TYPE_CHECKING:
    import pyarrow as pa

#: Bounds that every cursor is read with: lower, whether inclusive, upper, whether inclusive, NULLs too. Numbers are
#: places in the sorted values.
_BOUNDS: tuple[tuple[int | None, bool, int | None, bool, bool], ...] = (
    (None, False, None, True, False),
    (1, False, None, True, False),
    (1, True, None, True, False),
    (1, False, None, True, True),
    (None, False, 1, True, False),
    (None, False, 1, False, False),
    (0, False, 1, True, False),
    (0, True, -1, False, False),
    (1, False, 1, True, False),
    (-1, False, None, True, False),
)
_CURSOR_WORDS = {"id": "bigint", "n": "int", "at": "timestamp", "zoned": "timestamptz", "day": "date"}
#: Predicates over the dataset, with what their columns are compared with.
_PREDICATES: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    ('"id" > 3', {"id": ("integer",)}),
    ("\"label\" = ''", {"label": ("text",)}),
    ("\"label\" = 'a'", {"label": ("text",)}),
    ("\"label\" = 'it''s \"so\"'", {"label": ("text",)}),
    ('"label" IS NULL', {"label": ("any",)}),
    ('"label" IS NOT NULL AND "id" < 6', {"label": ("any",), "id": ("integer",)}),
    ("\"label\" < 'b'", {"label": ("text",)}),
    ("\"label\" LIKE 'G%'", {"label": ("text",)}),
    ('"n" IN (20, 40) OR "id" = 5', {"n": ("integer",), "id": ("integer",)}),
    ('"n" <> 20', {"n": ("integer",)}),
    ('"amount" = 2.200', {"amount": ("DECIMAL(4,3)",)}),
    ('"amount" > 2.2', {"amount": ("DECIMAL(2,1)",)}),
    ("\"day\" = DATE '2026-01-02'", {"day": ("date",)}),
    ("\"day\" >= '2026-01-02'", {"day": ("date text",)}),
    ("\"at\" > TIMESTAMP '2026-01-02 00:00:00'", {"at": ("timestamp",)}),
    ("\"zoned\" = TIMESTAMPTZ '2026-01-02 00:00:00+00'", {"zoned": ("timestamptz",)}),
    ('"flag"', {"flag": ("boolean",)}),
    ('"flag" = false', {"flag": ("boolean",)}),
    ('"ratio" = 0.30000000000000004::DOUBLE', {"ratio": ("double",)}),
    ('"id" = 9007199254740993', {"id": ("integer",)}),
    ('NOT ("id" = 1)', {"id": ("integer",)}),
)


class ReadRules(ConnectorHooks):
    """Rules that hold for a connector that can be read."""

    @rule("read", needs=["reads"], cases=lambda suite: suite.read_tiers())
    def read_returns_every_value(self, tier: Tier) -> None:
        """What was put there is read: every row, every value, NULL and empty text apart."""
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        landed = self.bench().land(self.read_spec(entity), tier)
        self.sent(table).must_be(landed.rows, what=f"the {tier} read")
        require(landed.result.rows_read == table.num_rows, f"rows_read is {landed.result.rows_read}")

    @rule("read", needs=["native_read", "universal_read"])
    def both_tiers_land_the_same(self) -> None:
        """A native and a universal read land the same columns, types and rows."""
        entity = self.entity()
        self.given(entity, self.dataset())
        native, universal = (self.bench().land(self.read_spec(entity), t).rows for t in ("native", "universal"))
        require(
            native.columns == universal.columns,
            f"columns differ: native {_described(native)}, universal {_described(universal)}",
        )
        same_rows(native, universal, what="the universal read, compared with the native one,")

    @rule("read", needs=["reads"])
    def schema_is_what_lands(self) -> None:
        """schema() names the columns and types that a read yields."""
        entity = self.entity()
        self.given(entity, self.dataset())
        with self.source() as source:
            told = tuple((c.name, c.type) for c in source.schema(self.read_spec(entity)))
        for tier in self.read_tiers():
            landed = tuple((c.name, c.type) for c in self.bench().land(self.read_spec(entity), tier).result.columns)
            require(told == landed, f"schema() says {told}, the {tier} read landed {landed}")

    @rule("read", needs=["reads"], cases=lambda suite: suite.read_tiers())
    def no_rows_are_a_read_too(self, tier: Tier) -> None:
        """An entity without rows is read as no rows, with its columns."""
        entity = self.entity()
        self.given(entity, self.pairs())
        landed = self.bench().land(self.read_spec(entity), tier)
        require(landed.rows.names == ("id", "label"), f"columns are {landed.rows.names}")
        require(len(landed.rows) == 0, f"{len(landed.rows)} rows landed")

    @rule("read", needs=["universal_read"])
    def no_rows_give_one_batch(self) -> None:
        """A universal read of no rows yields at least one batch, so that the columns are known."""
        entity = self.entity()
        self.given(entity, self.pairs())
        with self.source() as source:
            batches = self._batches(source, entity, 10)
        require(len(batches) >= 1, "no batch was yielded")
        require(batches[0].schema.names == ["id", "label"], f"its columns are {batches[0].schema.names}")

    @rule("read", needs=["universal_read"])
    def batches_are_no_larger_than_asked(self) -> None:
        """No batch has more than batch_rows rows, all have one schema, and together they are all rows."""
        entity, table = self.entity(), arrow_table(self.many(2500))
        self.given(entity, table)
        for size in (1, 7, 1000, 100_000):
            if size == 1:
                table_part = self.pairs((1, "a"), (2, None), (3, ""))
                small = self.entity()
                self.given(small, table_part)
                self._batched(small, table_part, size)
            else:
                self._batched(entity, table, size)

    def _batched(self, entity: str, table: pa.Table, size: int) -> None:
        with self.source() as source:
            batches = self._batches(source, entity, size)
        largest = max(b.num_rows for b in batches)
        require(largest <= size, f"batches of at most {size} rows were asked for, one has {largest}")
        require(all(b.schema.equals(batches[0].schema) for b in batches), "batches differ in their schemas")
        self.sent(table).must_be(rows_of_batches(batches), what=f"a read in batches of {size}")

    @rule("read", needs=["reads"], cases=lambda suite: suite.cursors())
    def bounds_are_exact(self, cursor: str) -> None:
        """A read within bounds lands exactly the rows within them, whatever the connector made of the bounds.

        Where the record declares that a bound is honoured, the engine must find nothing left to cut.
        """
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        values = sorted({v for v in table.column(cursor).to_pylist() if v is not None})
        word = _CURSOR_WORDS.get(cursor, "decimal")
        for tier in self.read_tiers():
            bench = self.bench()
            with bench.one_run():
                for lower, low_in, upper, up_in, nulls in _BOUNDS:
                    low = None if lower is None else _canonical(values[lower])
                    high = None if upper is None else _canonical(values[upper])
                    bounds = CursorBounds(cursor, word, low, low_in, high, up_in, nulls)
                    within = _within(values, lower, low_in, upper, up_in, nulls)
                    wanted = table.filter([within(v) for v in table.column(cursor).to_pylist()])
                    landed = bench.land(self.read_spec(entity, bounds=bounds), tier, slice=bounds)
                    told = f"the {tier} read of {_bounds_text(bounds)}"
                    self.sent(wanted).must_be(landed.rows, what=told)
                    require(
                        landed.result.trimmed == 0 or not self._must_cut(bounds),
                        f"{told}: {landed.result.trimmed} rows outside the bounds were read, though the record says "
                        "that such bounds are honoured",
                    )

    def _must_cut(self, bounds: CursorBounds) -> bool:
        can = self.capabilities()
        if bounds.lower is not None and (
            not can.floor_pushdown or (bounds.lower_inclusive and not can.inclusive_bound)
        ):
            return False
        return bounds.upper is None or can.bounded_window

    @rule("read", needs=["reads"])
    def pruned_columns_change_no_value(self) -> None:
        """A read of some columns lands their values unchanged; where pruning is declared, nothing else."""
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        wanted = [n for n in table.schema.names if n in ("id", "label", "amount")][-2:]
        for tier in self.read_tiers():
            spec = self.read_spec(entity, hints=ReadHints(columns=tuple(reversed(wanted))))
            landed = self.bench().land(spec, tier)
            self.sent(table.select(wanted)).must_be(landed.rows.only(wanted), what=f"the pruned {tier} read")
            if self.capabilities().column_pruning:
                require(landed.rows.names == tuple(wanted), f"asked for {wanted}, landed {landed.rows.names}")

    @rule("read", needs=["reads"])
    def pushed_filters_change_no_result(self) -> None:
        """A query gives the same rows over a filtered read as over a whole one."""
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        there = set(table.schema.names)
        for tier in self.read_tiers():
            bench = self.bench()
            with bench.one_run():
                for predicate, needs in _PREDICATES:
                    if not set(needs) <= there:
                        continue
                    hints = ReadHints(None, predicate, needs)
                    landed = bench.land(self.read_spec(entity, hints=hints), tier, where=predicate)
                    wanted = arrow_table(f"SELECT * FROM ({self.dataset_query()}) WHERE {predicate}")
                    self.sent(wanted).must_be(landed.rows, what=f"the {tier} read with the filter {predicate}")

    @rule("read", needs=["reads"])
    def filter_and_bounds_go_together(self) -> None:
        """Columns, filter and bounds of one read hold at once."""
        table = self.dataset()
        if not {"id", "label", "at"} <= set(table.schema.names):
            return
        entity = self.entity()
        self.given(entity, table)
        bounds = CursorBounds(
            "at", "timestamp", "2026-01-01T00:00:00.000000", False, "2026-01-03T00:00:00.000000", True
        )
        predicate = '"label" IS NULL OR "label" = \'\''
        hints = ReadHints(("id", "label", "at"), predicate, {"label": ("text",)})
        wanted = arrow_table(
            f'SELECT id, "at", label FROM ({self.dataset_query()}) WHERE ({predicate}) AND "at" > '
            "TIMESTAMP '2026-01-01' AND \"at\" <= TIMESTAMP '2026-01-03'"
        )
        for tier in self.read_tiers():
            spec = self.read_spec(entity, bounds=bounds, hints=hints)
            landed = self.bench().land(spec, tier, slice=bounds, where=predicate).rows.only(("id", "at", "label"))
            self.sent(wanted).must_be(landed, what=f"the {tier} read with columns, filter and bounds")

    @rule("read", needs=["reads"], cases=lambda suite: suite.read_tiers())
    def a_contract_is_kept(self, tier: Tier) -> None:
        """columns: cuts a read down to its columns and their types, and one that is missing is refused by name."""
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        wanted = [n for n in table.schema.names if n in ("id", "label", "day")]
        words = {c.name: word_of(c.type) or "varchar" for c in rows_of(table.select(wanted)).columns}
        landed = self.bench().land(self.read_spec(entity, columns=words), tier).rows
        require(set(landed.names) == set(wanted), f"columns: names {wanted}, landed are {landed.names}")
        self.sent(table.select(wanted)).must_be(landed.only(wanted), what=f"the {tier} read under a contract")
        if self.missing_is_null:
            return
        absent = self.read_spec(entity, columns={**words, "pz_kit_absent": "varchar"})
        wrong = refused_by_name(caught(self.bench().land, absent, tier), "pz_kit_absent", any_code=True)
        require(wrong is None, f"a column of the contract that is not there: {wrong}")

    @rule("read", needs=["universal_read"])
    def partitions_cover_exactly(self) -> None:
        """The parts of a read hold every row once, with bounds too, and are plain data."""
        entity, table = self.entity(), self.dataset()
        self.given(entity, table)
        spec = self.read_spec(entity)
        with self.source() as source:
            parts = list(source.partitions(spec))
            require(parts, "partitions() gave none; a read that is not split is one partition")
            require(len({p.ordinal for p in parts}) == len(parts), "two partitions have one ordinal")
            for part in parts:
                require(caught(canonical_json, part.payload) is None, "a partition's payload is no plain data")
            batches = [b for part in parts for b in source.read(spec, part, 3)]
        self.sent(table).must_be(rows_of_batches(batches), what="all partitions together")
        if self.capabilities().stable_partitions:
            with self.source() as source:
                again = [p.id for p in source.partitions(spec)]
            require([p.id for p in parts] == again, "ids of partitions changed between two reads")
            require(all(p.id for p in parts), "a partition has no id though the record says that ids are stable")

    @rule("read", needs=["universal_read"])
    def a_read_can_end_early(self) -> None:
        """A read that is closed after one batch leaves nothing open, and the entity can be read and written again."""
        entity, table = self.entity(), arrow_table(self.many(4000))
        self.given(entity, table)
        connector = self.make()
        source = connector.open_source()
        spec = self.read_spec(entity)
        reading = source.read(spec, source.partitions(spec)[0], 10)
        next(iter(reading))
        close: Callable[[], None] = getattr(reading, "close", lambda: None)
        close()
        source.close()
        error = caught(source.close)
        require(error is None, f"closing a closed source raised {type(error).__name__}: {error}")
        rows = self.bench().land(spec, "universal").rows
        require(len(rows) == 4000, f"{len(rows)} rows came back afterwards")
        if self.strategies():
            self.write(entity, self.pairs((1, "a")), self.strategies()[0], self.write_tiers()[-1])

    @rule("read", needs=["universal_read"])
    def a_cancelled_read_ends(self) -> None:
        """A read that is cancelled half way ends at once, shows nothing, and the connector works afterwards."""
        entity, table = self.entity(), arrow_table(self.many(20_000))
        self.given(entity, table)
        looks = iter(range(1_000_000))
        connector = self.make()
        control = KitControl(cancel_when=lambda: next(looks) >= 4)
        error, there = self.bench(connector).landed_after_failure(self.read_spec(entity), "universal", control)
        require(isinstance(error, Cancelled), f"the cancelled read ended with {type(error).__name__}: {error}")
        require(not there, "rows of the cancelled read can be seen")
        rows = self.bench(connector).land(self.read_spec(entity), "universal").rows
        require(len(rows) == 20_000, f"{len(rows)} rows came back afterwards")

    @rule("read", needs=["reads"])
    def reads_at_once_do_not_meet(self) -> None:
        """One connector instance serves several reads at once, each with every row."""
        first, second = self.entity("a"), self.entity("b")
        one, two = arrow_table(self.many(3000)), self.pairs((1, "a"), (2, None))
        self.given(first, one)
        self.given(second, two)
        connector, found, errors = self.make(), {}, []

        def read(key: str, entity: str) -> None:
            try:
                found[key] = self.bench(connector).land(self.read_spec(entity), self.read_tiers()[-1]).rows
            except Exception as error:  # noqa: BLE001 - told below
                errors.append(error)

        jobs = [("1", first), ("2", second), ("3", first), ("4", second)]
        threads = [threading.Thread(target=read, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        require(not errors, f"reads at once failed: {errors[0] if errors else ''}")
        for key, (_, entity) in zip("1234", jobs, strict=True):
            self.sent(one if entity == first else two).must_be(found[key], what=f"read {key} of four at once")

    def _batches(self, source: Source, entity: str, size: int) -> list[Any]:
        spec = self.read_spec(entity)
        return [b for part in source.partitions(spec) for b in source.read(spec, part, size)]


def _canonical(value: Any) -> str:
    """Canonical text of a bound, as the state keeps it."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(value, (datetime.date, Decimal)):
        return str(value)
    return str(value)


def _within(
    values: list[Any], lower: int | None, low_in: bool, upper: int | None, up_in: bool, nulls: bool
) -> Callable[[Any], bool]:
    low = None if lower is None else values[lower]
    high = None if upper is None else values[upper]

    def within(value: Any) -> bool:
        if value is None:
            return low is None or nulls
        if low is not None and not (value >= low if low_in else value > low):
            return False
        return high is None or bool(value <= high if up_in else value < high)

    return within


def _bounds_text(bounds: CursorBounds) -> str:
    low = "" if bounds.lower is None else f"{'>=' if bounds.lower_inclusive else '>'} {bounds.lower} "
    high = "" if bounds.upper is None else f"{'<=' if bounds.upper_inclusive else '<'} {bounds.upper} "
    return f"{bounds.cursor} {low}{high}{'with NULLs' if bounds.with_nulls else ''}".strip()


def _described(rows: Rows) -> str:
    return ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in rows.columns)

"""Rules of writing: all or nothing, the same again, nothing that a strategy does not say."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from pz_core.contract.engine import Tier
from pz_core.testkit.asking import caught
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.corpus import arrow_table
from pz_core.testkit.interposed import Interposed, embedded, scribbled
from pz_core.testkit.rows import Rows, same_rows
from pz_core.testkit.rules import Broken, codes_of, require, rule
from pz_core.values import Column

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds that a reader may wait for a writer that has not committed yet.
_PATIENCE_S = 10.0


def _way(name: str) -> tuple[str, Tier]:
    strategy, _, tier = name.partition(" ")
    return strategy, cast(Tier, tier)


class WriteRules(ConnectorHooks):
    """Rules that hold for a connector that can be written."""

    @rule("write", cases=lambda suite: suite.ways())
    def a_write_lands_every_row(self, way: str) -> None:
        """What is written is there: every row, every value, counted."""
        strategy, tier = _way(way)
        entity, table = self.entity(), self.dataset()
        if "id" not in table.schema.names:
            table = self.pairs((1, "a"), (2, None), (3, ""))
        result = self.write(entity, table, strategy, tier)
        require(result.rows_written == table.num_rows, f"rows_written is {result.rows_written} of {table.num_rows}")
        self.sent(table).must_be(self._there(entity), what=f"what {way} wrote")

    @rule("write", cases=lambda suite: suite.ways())
    def no_rows_are_a_load_too(self, way: str) -> None:
        """A load of no rows succeeds: replace empties the entity, the others leave it as it is."""
        strategy, tier = _way(way)
        entity, rows = self.entity(), self.pairs((1, "a"), (2, None))
        self.write(entity, rows, strategy, tier)
        self.write(entity, self.pairs(), strategy, tier)
        wanted = self.pairs() if strategy == "replace" else rows
        self.sent(wanted).must_be(self._there(entity), what=f"after an empty {way}")

    @rule("write", cases=lambda suite: suite.ways())
    def a_first_load_of_no_rows_makes_the_entity(self, way: str) -> None:
        """A first load of no rows leaves an entity that can be read as no rows."""
        strategy, tier = _way(way)
        entity = self.entity()
        self.write(entity, self.pairs(), strategy, tier)
        rows = self._there(entity)
        require(len(rows) == 0, f"{len(rows)} rows are there")

    @rule("write", cases=lambda suite: suite.ways())
    def loading_again_does_what_the_strategy_says(self, way: str) -> None:
        """The same batch again: replace and merge change nothing, append adds it."""
        strategy, tier = _way(way)
        entity, first = self.entity(), self.pairs((1, "a"), (2, None), (3, ""))
        self.write(entity, first, strategy, tier)
        self.write(entity, first, strategy, tier)
        wanted = first if strategy != "append" else _both(first, first)
        self.sent(wanted).must_be(self._there(entity), what=f"after the same {way} twice")

    @rule("write", cases=lambda suite: suite.ways())
    def another_batch_does_what_the_strategy_says(self, way: str) -> None:
        """Another batch: replace exchanges all, append adds, merge updates by key and inserts."""
        strategy, tier = _way(way)
        entity = self.entity()
        first, second = self.pairs((1, "a"), (2, "b"), (3, None)), self.pairs((2, None), (3, "c"), (4, "d"))
        self.write(entity, first, strategy, tier)
        self.write(entity, second, strategy, tier)
        wanted = {
            "replace": second,
            "append": _both(first, second),
            "merge": self.pairs((1, "a"), (2, None), (3, "c"), (4, "d")),
        }[strategy]
        self.sent(wanted).must_be(self._there(entity), what=f"after {way} of another batch")

    @rule("write", cases=lambda suite: suite.ways())
    def a_failed_write_leaves_the_old_content(self, way: str) -> None:
        """A write that fails half way leaves what was there before, and the next one succeeds."""
        strategy, tier = _way(way)
        self._discards()
        entity, old = self.entity(), self.pairs((1, "a"), (2, None))
        self.write(entity, old, strategy, tier)
        error = caught(lambda: self.write(entity, self.failing(), strategy, tier, batch_bytes=65_536))
        require(error is not None, "the write of a row that cannot be made succeeded")
        self.sent(old).must_be(self._there(entity), what=f"after a failed {way}")
        new = self.pairs((3, "c"))
        self.write(entity, new, strategy, tier, attempt=2)
        wanted = new if strategy == "replace" else _both(old, new)
        self.sent(wanted).must_be(self._there(entity), what=f"after the next {way}")

    @rule("write", cases=lambda suite: suite.ways())
    def a_failed_first_write_leaves_nothing(self, way: str) -> None:
        """A write that fails half way into an entity that was not there leaves no row."""
        strategy, tier = _way(way)
        self._discards()
        entity = self.entity()
        error = caught(lambda: self.write(entity, self.failing(), strategy, tier, batch_bytes=65_536))
        require(error is not None, "the write of a row that cannot be made succeeded")
        rows = self.found(entity)
        require(not rows, f"{len(rows or ())} rows are there")

    @rule("write", cases=lambda suite: suite.ways())
    def a_retry_lands_rows_once(self, way: str) -> None:
        """An attempt that fails and one that succeeds, of the same run, land every row once."""
        strategy, tier = _way(way)
        self._discards()
        entity, run_id = self.entity(), "20260101T000000000Z-ffff"
        caught(lambda: self.write(entity, self.failing(), strategy, tier, run_id=run_id, batch_bytes=65_536))
        rows = self.pairs((1, "a"), (2, None))
        self.write(entity, rows, strategy, tier, run_id=run_id, attempt=2)
        self.sent(rows).must_be(self._there(entity), what=f"after the second attempt of {way}")

    @rule("write", cases=lambda suite: suite.ways())
    def many_batches_are_one_load(self, way: str) -> None:
        """Rows that come in many batches land like rows that come in one."""
        strategy, tier = _way(way)
        entity = self.entity()
        self.write(entity, self.many(9000), strategy, tier, batch_bytes=65_536)
        self.sent(arrow_table(self.many(9000))).must_be(self._there(entity), what=f"{way} in many batches")

    @rule("write", needs=["universal_write"], cases=("slices of larger ones", "gone after the call"))
    def batches_are_read_while_they_are_there(self, kind: str) -> None:
        """A batch may be a slice of a larger one, and its memory is someone else's once write() has returned."""
        entity, table = self.entity(), self.dataset()
        change = embedded if kind == "slices of larger ones" else scribbled
        connector = Interposed(self.make(), on_batch=change)
        strategy = self.strategies()[0]
        self.write(entity, table, strategy, "universal", through=connector)
        require(connector.batches > 0, "no batch reached the session")
        self.sent(table).must_be(self._there(entity), what=f"batches that are {kind}")

    @rule("write", needs=["universal_write"], cases=("before any row", "after rows"))
    def abort_leaves_the_target_as_it_was(self, when: str) -> None:
        """A session that is begun and aborted leaves the old content, and the place can be written again."""
        self._discards()
        entity, old, strategy = self.entity(), self.pairs((1, "a"), (2, None)), self.strategies()[0]
        self.write(entity, old, strategy, "universal")
        with self.sink() as sink:
            spec = self.write_spec(entity, strategy)
            session = sink.begin(spec, self._columns())
            if when == "after rows":
                for batch in self.pairs((8, "x"), (9, "y")).to_batches():
                    session.write(batch)
            session.abort()
        self.sent(old).must_be(self._there(entity), what="after an abort")
        self.write(entity, old, strategy, "universal")

    @rule("write", needs=["universal_write"], cases=("commit", "abort"))
    def an_ended_session_takes_nothing(self, end: str) -> None:
        """After commit or abort a session refuses further rows with a coded error."""
        entity, strategy = self.entity(), self.strategies()[0]
        rows = self.pairs((1, "a"))
        with self.sink() as sink:
            session = sink.begin(self.write_spec(entity, strategy), self._columns())
            [batch] = rows.to_batches()
            session.write(batch)
            getattr(session, end)()
            error = caught(lambda: session.write(batch))
            require(error is not None, f"a row was taken after {end}()")
            require(codes_of(cast(Exception, error)), f"a foreign {type(error).__name__} came out: {error}")
            if end == "abort":
                error = caught(session.commit)
                require(error is not None, "a session that was aborted could be committed")

    @rule("write", needs=["transactional"], cases=lambda suite: [w for w in suite.ways() if w.endswith(" universal")])
    def nothing_is_seen_before_the_commit(self, way: str) -> None:
        """Until the commit, readers see the old content, and do not wait."""
        strategy, _ = _way(way)
        entity, old, new = self.entity(), self.pairs((1, "a"), (2, "b")), self.pairs((2, "z"), (3, "c"))
        self.write(entity, old, strategy, "universal")
        seen: list[Any] = []

        def look() -> None:
            seen.append(caught(lambda: seen.append(self.found(entity))))

        def before_commit() -> None:
            thread = threading.Thread(target=look, daemon=True)
            thread.start()
            thread.join(_PATIENCE_S)
            require(len(seen) == 2, f"a reader waited for more than {_PATIENCE_S:g} seconds for the commit")

        connector = Interposed(self.make(), before_commit=before_commit)
        self.write(entity, new, strategy, "universal", through=connector)
        require(len(seen) == 2, "the session was never committed" if not seen else f"the reader failed: {seen[0]}")
        self.sent(old).must_be(cast(Rows, seen[0]), what="what a reader saw before the commit")

    @rule("write", needs=["load_modes"])
    def writes_at_once_do_not_meet(self) -> None:
        """One connector instance serves writes of several entities at once."""
        connector, strategy, tier = self.make(), self.strategies()[0], self.write_tiers()[-1]
        tables = {self.entity("w"): arrow_table(self.many(n)) for n in (10, 3000, 500)}
        errors: list[Exception] = []

        def write(entity: str, table: pa.Table) -> None:
            try:
                self.write(entity, table, strategy, tier, through=connector)
            except Exception as error:  # noqa: BLE001 - judged below
                errors.append(error)

        threads = [threading.Thread(target=write, args=item, daemon=True) for item in tables.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in errors:
            # A place with one writer at a time says so, and says that it passes; the engine then comes again.
            require(getattr(error, "transient", False), f"a write beside others failed: {error}")
        for entity, table in tables.items():
            rows = self.found(entity)
            if rows is None and errors:
                continue
            self.sent(table).must_be(rows or Rows((), ()), what="one of three writes at once")

    @rule("write", cases=lambda suite: [t for t in suite.write_tiers() if "merge" in suite.strategies()])
    def merge_refuses_keys_that_are_null(self, tier: Tier) -> None:
        """NULL in a merge key fails the load (PZ0521) before anything is written."""
        entity, old = self.entity(), self.pairs((1, "a"))
        self.write(entity, old, "merge", tier)
        rows = f"{self.pairs_query((2, 'b'))} UNION ALL SELECT NULL, 'c'"
        error = caught(lambda: self.write(entity, arrow_table(rows), "merge", tier))
        require(error is not None and "PZ0521" in codes_of(error), f"the load ended with {error!r}")
        self.sent(old).must_be(self._there(entity), what="after a refused merge")

    @rule("write", cases=lambda suite: [t for t in suite.write_tiers() if "merge" in suite.strategies()])
    def merge_keeps_the_last_of_each_key(self, tier: Tier) -> None:
        """Of several rows of one key the last to arrive is kept, and the warning PZ0522 says how many there were."""
        entity = self.entity()
        self.write(entity, self.pairs((1, "old"), (5, "stays")), "merge", tier)
        batch = self.pairs((1, "x"), (2, "a"), (1, "y"), (2, "b"), (1, "last"))
        result = self.write(entity, batch, "merge", tier)
        require([w.code for w in result.warnings] == ["PZ0522"], f"warnings are {[w.code for w in result.warnings]}")
        wanted = self.pairs((1, "last"), (2, "b"), (5, "stays"))
        self.sent(wanted).must_be(self._there(entity), what="after a merge with repeated keys")

    @rule("write", cases=lambda suite: suite.policies())
    def schema_policies_hold(self, case: str) -> None:
        """Each declared schema_policy does to the target what it says, all or nothing."""
        policy, _, tier = case.partition(" ")
        entity = self.entity()
        old = self.pairs((1, "a"))
        self.write(entity, old, "append", cast(Tier, tier))
        wider = arrow_table(f"{self.pairs_query((2, 'b'))}, 'more' AS extra")
        error = caught(lambda: self.write(entity, wider, "append", cast(Tier, tier), schema_policy=policy))
        if policy == "fail_on_change":
            require(error is not None and "PZ0804" in codes_of(error), f"a new column ended with {error!r}")
            self.sent(old).must_be(self._there(entity), what="after a refused change")
            return
        if error is not None:
            raise error
        rows = self._there(entity)
        names = ("id", "label", "extra") if policy in ("additive", "evolve") else ("id", "label")
        require(rows.names == names, f"under {policy} the columns are {rows.names}")
        wanted = self.pairs((1, "a"), (2, "b"))
        same_rows(self.sent(wanted).rows, rows.only(("id", "label")), what=f"under {policy}")
        if "extra" in names:
            require(sorted(rows.column("extra"), key=str) == [None, "more"], f"extra holds {rows.column('extra')}")

    @classmethod
    def policies(cls) -> tuple[str, ...]:
        """Declared policies and tiers, where appends change a table in place."""
        can = cls.capabilities()
        if "append" not in cls.strategies() or cls.load_mode("append") != "program":
            return ()
        return tuple(f"{policy} {tier}" for policy in sorted(can.schema_policies) for tier in cls.write_tiers())

    def _there(self, entity: str) -> Rows:
        rows = self.found(entity)
        if rows is None:
            raise Broken("the entity is not there")
        return rows

    def _columns(self) -> tuple[Column, ...]:
        return (Column("id", self.id_type()), Column("label", "VARCHAR"))

    def _discards(self) -> None:
        """A connector whose abort cannot take everything back says so, and is then not held to it."""
        from pz_core.testkit.rules import NotApplicable

        with self.sink() as sink:
            semantics = sink.abort_semantics()
        if semantics != "discards_all":
            if self.capabilities().transactional:
                raise Broken(f"transactional is declared, but abort_semantics() says {semantics}")
            raise NotApplicable(f"abort_semantics() says {semantics}")


def _both(one: pa.Table, two: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([one, two])

"""Rules of the ledger: a batch that is in the target is never written again, and its entry lives and dies with it."""

from __future__ import annotations

from pz_core.contract.engine import Tier
from pz_core.contract.ledger import LedgerClaim, LedgerMark
from pz_core.testkit.asking import caught
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.rows import Rows
from pz_core.testkit.rules import codes_of, require, rule


class LedgerRules(ConnectorHooks):
    """Rules that hold for a connector which declares ``ledger``; loads are appends with ``duplicates: 'refuse'``."""

    @rule("ledger", needs=["ledger"], cases=lambda suite: suite.write_tiers())
    def a_batch_is_written_once(self, tier: Tier) -> None:
        """A batch that the ledger has is skipped, and the next one is written."""
        entity = self.entity()
        first, second = self.pairs((1, "a"), (2, "b")), self.pairs((3, "c"))
        result = self.write(entity, first, "append", tier, ledger=_claim(entity, "r-1", None, "2"))
        require(result.rows_written == 2 and result.delivered_by is None, f"the first load said {result}")
        again = self.write(entity, first, "append", tier, ledger=_claim(entity, "r-2", None, "2"))
        require(again.rows_written == 0, f"the same batch was written again: {again.rows_written} rows")
        require(again.delivered_by == "r-1", f"it was said to be delivered by {again.delivered_by}")
        self.sent(first).must_be(self._has(entity), what="after the same batch twice")
        self.write(entity, second, "append", tier, ledger=_claim(entity, "r-3", "2", "3"))
        self.sent(self.pairs((1, "a"), (2, "b"), (3, "c"))).must_be(self._has(entity), what="after the next batch")

    @rule("ledger", needs=["ledger"], cases=lambda suite: suite.write_tiers())
    def a_failed_batch_leaves_no_entry(self, tier: Tier) -> None:
        """A load that fails leaves neither rows nor an entry, so that its batch is written the next time."""
        entity, rows = self.entity(), self.pairs((1, "a"), (2, "b"))
        self.write(entity, self.pairs((0, "z")), "append", tier, ledger=_claim(entity, "r-0", None, "0"))
        claim = _claim(entity, "r-1", "0", "2")
        error = caught(lambda: self.write(entity, self.failing(), "append", tier, ledger=claim, batch_bytes=65_536))
        require(error is not None, "the write of a row that cannot be made succeeded")
        result = self.write(entity, rows, "append", tier, ledger=_claim(entity, "r-2", "0", "2"))
        require(result.rows_written == 2, f"{result.rows_written} rows were written after the failure")
        wanted = self.pairs((0, "z"), (1, "a"), (2, "b"))
        self.sent(wanted).must_be(self._has(entity), what="after a failed batch and a good one")

    @rule("ledger", needs=["ledger"], cases=lambda suite: suite.write_tiers())
    def a_batch_that_overlaps_is_refused(self, tier: Tier) -> None:
        """A batch of which the target has a part is PZ0520, and nothing is written."""
        entity, rows = self.entity(), self.pairs((1, "a"), (2, "b"))
        self.write(entity, rows, "append", tier, ledger=_claim(entity, "r-1", None, "2"))
        wider = self.pairs((2, "b"), (3, "c"))
        error = caught(lambda: self.write(entity, wider, "append", tier, ledger=_claim(entity, "r-2", "1", "3")))
        require(error is not None and "PZ0520" in codes_of(error), f"an overlapping batch ended with {error!r}")
        self.sent(rows).must_be(self._has(entity), what="after a refused batch")

    @rule("ledger", needs=["ledger"], cases=lambda suite: suite.write_tiers())
    def outputs_and_projects_have_entries_of_their_own(self, tier: Tier) -> None:
        """Two entities, and two projects that load one, do not take each other's entries for theirs."""
        one, two, rows = self.entity("a"), self.entity("b"), self.pairs((1, "a"))
        self.write(one, rows, "append", tier, ledger=_claim(one, "r-1", None, "1"))
        self.write(two, rows, "append", tier, ledger=_claim(two, "r-1", None, "1"))
        self.sent(rows).must_be(self._has(two), what="a second entity with the same batch")
        self.write(one, rows, "append", tier, ledger=_claim(one, "r-2", None, "1", project="it's another"))
        self.sent(self.pairs((1, "a"), (1, "a"))).must_be(self._has(one), what="a second project with the same batch")

    def _has(self, entity: str) -> Rows:
        return self.found(entity) or Rows((), ())


def _claim(entity: str, run_id: str, base: str | None, upper: str, project: str = "kit") -> LedgerClaim:
    mark = LedgerMark("shop.it's", "id", "bigint", base, upper)
    return LedgerClaim(project, f"kit.{entity}", (mark,), run_id, frozenset({run_id}), "2026-01-01T00:00:00.000000Z")

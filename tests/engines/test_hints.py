"""Hints reach a connector only as far as the entity's own columns bear them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pz_core.contract.connector import ConnectorError, NativeScan, ReadHints
from pz_core.values import Column

PLANNED = ReadHints(("NOTE", "id", "nope"), '("id" > 1)', {"id": ("integer",)})
ASKED = ReadHints(("id", "Note"), '("id" > 1)')
TABLE = "SELECT i AS id, 'x' AS \"Note\", 2 AS pad FROM range(4) r(i)"


def test_a_native_scan_is_asked_again_with_hints_that_fit(bench: Any, fakes: Any) -> None:
    class Source(fakes.Source):
        def native_scan(self, spec: Any) -> NativeScan:
            self.asked.append(spec)
            hinted = spec.hints != ReadHints()
            return NativeScan('SELECT id, "Note" FROM (' + TABLE + ") WHERE id > 1" if hinted else TABLE)

    source = bench.source(Source())
    result = bench.land(hints=PLANNED)
    assert [spec.hints for spec in source.asked] == [ReadHints(), ASKED]
    assert (result.rows_read, [c.name for c in result.columns]) == (2, ["id", "Note"])


def test_batches_are_asked_for_with_hints_that_fit(bench: Any, fakes: Any) -> None:
    seen: list[Any] = []

    class Source(fakes.Source):
        def read(self, spec: Any, partition: Any, batch_rows: int) -> Any:
            seen.append(spec.hints)
            return super().read(spec, partition, batch_rows)

    columns = (Column("id", "BIGINT"), Column("Note", "VARCHAR"), Column("pad", "INTEGER"))
    bench.source(Source(parts=[fakes.batches('SELECT 2::bigint AS id, NULL::varchar AS "Note"')], columns=columns))
    bench.land("universal", hints=PLANNED)
    assert seen == [ASKED]


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_no_hint_is_given_where_the_columns_cannot_be_known(bench: Any, fakes: Any, tier: str) -> None:
    class Source(fakes.Source):
        def schema(self, spec: Any) -> Any:
            raise ConnectorError("no")

        def native_scan(self, spec: Any) -> NativeScan:
            self.asked.append(spec)
            return NativeScan("SELECT id FROM nowhere" if len(self.asked) == 1 else TABLE)

    source = bench.source(Source(parts=[fakes.batches("SELECT 1 AS a")]))
    bench.land(tier, hints=PLANNED)
    assert {spec.hints == ReadHints() for spec in source.asked} <= {True}


def test_a_read_without_hints_is_asked_once(bench: Any, fakes: Any) -> None:
    source = bench.source(fakes.Source(scan=NativeScan(TABLE)))
    bench.land(hints=replace(ReadHints()))
    assert len(source.asked) == 1

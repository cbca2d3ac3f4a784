"""What reaches the staging table, through the engine, in both tiers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pz_localfiles.connector import LocalFiles

from pz_core.contract import ConnectionConfig, ReadHints, ReadSpec
from pz_core.contract.connector import ConnectorError
from pz_core.contract.engine import EngineSettings, LandTask, NodeRef
from pz_core.engines.duckdb.engine import DuckDBEngine


class Control:
    attempt = 1

    def progress(self, rows: int, bytes: int, batches: int) -> None: ...

    def raise_if_cancelled(self) -> None: ...

    def on_cancel(self, interrupt: Any) -> Any:
        return lambda: None


class Host:
    def __init__(self, project: Path) -> None:
        self._project = project

    def connector(self, connection: str) -> LocalFiles:
        return LocalFiles(ConnectionConfig(connection, "localfiles", {}, str(self._project)))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(EngineSettings(str(tmp_path / "s.duckdb"), str(tmp_path / "spill"), threads=2), Host(tmp_path))  # type: ignore[arg-type]
    yield made
    made.close()


def land(engine: DuckDBEngine, tier: str = "native", **read: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    spec = ReadSpec("t", **{"options": {"format": "csv"}, **read})
    task = LandTask(NodeRef("id", "t"), "t", "inbox", "localfiles", tier, spec)  # type: ignore[arg-type]
    result = engine.land(task, Control())
    with engine._session.task(Control()) as work:  # type: ignore[arg-type]
        rows = work.run("SELECT * FROM staging.t ORDER BY ALL").fetchall()
    assert result.rows_staged == len(rows)
    return [c.type for c in result.columns], rows


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_a_fraction_far_below_the_sample_decides_the_type(engine: DuckDBEngine, tmp_path: Path, tier: str) -> None:
    (tmp_path / "t.csv").write_text("n\n" + "7\n" * 30_000 + "7.625\n")
    types, rows = land(engine, tier)
    assert (types, len(rows), rows[-1]) == (["DOUBLE"], 30_001, (7.625,))


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_a_value_against_the_contract_is_named_by_column_file_and_row(
    engine: DuckDBEngine, tmp_path: Path, tier: str
) -> None:
    (tmp_path / "t.csv").write_text("n\n" + "7\n" * 5_000 + "7.625\n" + "8\n" * 5_000)
    with pytest.raises(ConnectorError, match=r"column 'n', row 5001 of t\.csv") as caught:
        land(engine, tier, columns={"n": "bigint"})
    assert caught.value.code == "PZ0812"


@pytest.mark.parametrize("content", ["a,b\nx,y\n" + "x,y\n" * 4_000 + "x\n", "a,b\n1,2\n" + "1,2\n" * 4_000 + "1\n"])
def test_a_short_record_is_named_by_file_and_line(engine: DuckDBEngine, tmp_path: Path, content: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ConnectorError, match=r"t\.csv, line 4003: 1 fields where 2 are expected"):
        land(engine)


def test_hints_do_not_make_the_files_be_looked_at_twice(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    source = LocalFiles(ConnectionConfig("inbox", "localfiles", {}, str(tmp_path))).open_source()
    spec = ReadSpec("t", {"format": "csv"})
    hinted = ReadSpec("t", {"format": "csv"}, hints=ReadHints(("a",), "a > 0"))
    assert source.resolve_scan(spec) is source.resolve_scan(hinted)
    source.close()

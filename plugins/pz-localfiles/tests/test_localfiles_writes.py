"""What writing leaves behind: whole files or none, neighbours untouched, both tiers alike."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pz_localfiles.connector import LocalFiles
from pz_localfiles.places import temporary

from pz_core.contract import ConnectionConfig, ReadSpec, WriteSpec
from pz_core.contract.connector import ConnectorError
from pz_core.values import Column

OLD, NEW = "20260902T101533221Z-4c1a", "20260903T101533221Z-aa00"


def lake(project: Path) -> LocalFiles:
    return LocalFiles(ConnectionConfig("lake", "localfiles", {"root": "out"}, str(project)))


def replace(entity: str = "t", run: str = NEW, **options: str) -> WriteSpec:
    return WriteSpec(entity, options, "replace", "swap", run_id=run)


def append(entity: str = "t", run: str = NEW, **options: str) -> WriteSpec:
    return WriteSpec(entity, options, "append", "add", run_id=run)


def write(project: Path, spec: WriteSpec, query: str) -> None:
    """Through a session, in batches of two rows."""
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
        columns = tuple(Column(r[0], r[1]) for r in con.execute(f"DESCRIBE {query}").fetchall())
        session = lake(project).open_sink().begin(spec, columns)
        for batch in con.execute(query).to_arrow_table().to_batches(2):
            session.write(batch)
        session.commit()


def copy(project: Path, spec: WriteSpec, query: str) -> Path:
    """The native way, as an engine does it."""
    made = lake(project).open_sink().native_write(spec)
    Path(made.path).parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        try:
            con.execute(f"COPY (SELECT {made.projection} FROM ({query})) TO '{made.path}' ({made.options})")
        except duckdb.Error:
            Path(made.path).unlink(missing_ok=True)
            raise
    for move in made.moves:
        Path(move.source).replace(move.target)
    for name in made.removes:
        Path(name).unlink()
    return Path(made.moves[0].target)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_replace_removes_earlier_appends_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "out/t"
    write(tmp_path, append(run=OLD), "select 1 as n")
    for neighbour in ("notes.txt", "t-extra.parquet", f"t-eu-{OLD}-1.parquet", f"other-{OLD}-1.parquet"):
        (folder / neighbour).write_text("mine")
    write(tmp_path, replace(), "select 2 as n")
    assert names(folder) == sorted(
        ["notes.txt", "t-extra.parquet", f"t-eu-{OLD}-1.parquet", f"other-{OLD}-1.parquet", "t.parquet"]
    )


def test_the_native_way_removes_the_same_files(tmp_path: Path) -> None:
    copy(tmp_path, append(run=OLD), "select 1 as n")
    copy(tmp_path, replace(), "select 2 as n")
    assert names(tmp_path / "out/t") == ["t.parquet"]


def test_an_abort_leaves_the_old_file_and_no_trace(tmp_path: Path) -> None:
    write(tmp_path, replace(format="csv"), "select 1 as n")
    session = lake(tmp_path).open_sink().begin(replace(format="csv"), (Column("n", "INTEGER"),))
    session.write(pa.record_batch({"n": pa.array([7], pa.int32())}))
    session.abort()
    assert names(tmp_path / "out/t") == ["t.csv"]
    assert (tmp_path / "out/t/t.csv").read_text() == "n\n1\n"


def test_a_commit_that_fails_leaves_the_old_file_and_no_trace(tmp_path: Path) -> None:
    write(tmp_path, replace(format="json"), "select 1 as n")
    with pytest.raises(ConnectorError, match="column 'n'") as caught:
        write(tmp_path, replace(format="json"), "select 'nan'::double as n")
    assert caught.value.code == "PZ0812"
    assert names(tmp_path / "out/t") == ["t.json"]


def test_what_a_killed_run_left_is_cleared_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "out/t"
    folder.mkdir(parents=True)
    mine = temporary(folder, "t", "parquet", OLD, 1)
    dead = mine.with_name(mine.name.replace(f".{os.getpid()}-", ".999999999-"))
    other = temporary(folder, "u", "parquet", OLD, 1)
    foreign = other.with_name(other.name.replace(f".{os.getpid()}-", ".999999999-"))
    for path in (mine, dead, foreign):
        path.write_text("half")
    write(tmp_path, replace(), "select 1 as n")
    assert names(folder) == sorted([mine.name, foreign.name, "t.parquet"])


@pytest.mark.parametrize("file_format", ["csv", "tsv", "json", "parquet"])
def test_both_tiers_write_the_same_bytes(tmp_path: Path, file_format: str) -> None:
    query = (
        "select * from (values (1, '', NULL, 1.50::decimal(9,2), timestamptz '2026-01-01 10:00:00.123456+02'), "
        "(2, NULL, 'a\"b,c' || chr(10) || 'd', NULL, NULL), "
        "(3, ' ', 'é', -0.01, timestamptz '1969-12-31 23:59:59Z')) v(a, b, c, d, e)"
    )
    native = copy(tmp_path / "one", replace(format=file_format), query).read_bytes()
    write(tmp_path / "two", replace(format=file_format), query)
    streamed = (tmp_path / f"two/out/t/t.{file_format}").read_bytes()
    assert native == streamed


def test_null_and_empty_text_survive_csv_both_ways(tmp_path: Path) -> None:
    path = copy(tmp_path, replace(format="csv"), "select * from (values (1, '', NULL), (2, NULL, 'NULL')) v(n, a, b)")
    assert path.read_text() == 'n,a,b\n1,"",\n2,,NULL\n'
    source = lake(tmp_path).open_source()
    spec = ReadSpec("t", {"path": "t/t.csv"})
    [batch] = source.read(spec, source.partitions(spec)[0], 100)
    assert batch.to_pylist() == [{"n": 1, "a": "", "b": None}, {"n": 2, "a": None, "b": "NULL"}]


def test_whole_numbers_beyond_64_bits_reach_parquet_exactly_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path, replace(), "select 9007199254740993::hugeint as n")
    with duckdb.connect() as con:
        rows = con.execute(f"select n, typeof(n) from '{tmp_path}/out/t/t.parquet'").fetchall()
    assert [(int(n), kind) for n, kind in rows] == [(9007199254740993, "DECIMAL(38,0)")]
    with pytest.raises(ConnectorError) as caught:
        write(tmp_path, replace(), "select 170141183460469231731687303715884105727::hugeint as n")
    assert caught.value.code == "PZ0812"
    with pytest.raises(duckdb.Error, match="PZ0812"):
        copy(tmp_path, replace(), "select 9007199254740993::hugeint as n")
    copy(tmp_path, replace(), "select sum(x) as n from range(5) r(x)")


@pytest.mark.parametrize("value", ["'nan'::double", "'-inf'::float", "['nan'::double]", "{'a': 'inf'::double}"])
def test_what_json_cannot_hold_is_refused_by_column_in_the_native_way(tmp_path: Path, value: str) -> None:
    with pytest.raises(duckdb.Error, match=r"PZ0812.*column 'probe'"):
        copy(tmp_path, replace(format="json"), f"select 'nan' as word, {value} as probe")
    assert names(tmp_path / "out/t") == []


def test_an_empty_write_gives_a_header_or_an_empty_file(tmp_path: Path) -> None:
    write(tmp_path, replace(format="csv"), "select 1 as n where false")
    assert (tmp_path / "out/t/t.csv").read_text() == "n\n"


def test_compressed_text_says_so_in_its_name_and_reads_back(tmp_path: Path) -> None:
    path = copy(tmp_path, replace(format="csv", compression="gzip"), "select 1 as n, 'é' as s")
    assert path.name == "t.csv.gz"
    source = lake(tmp_path).open_source()
    spec = ReadSpec("t", {"path": "t/t.csv.gz"})
    [batch] = source.read(spec, source.partitions(spec)[0], 100)
    assert batch.to_pylist() == [{"n": 1, "s": "é"}]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConnectorError, match=r"lake\.t"):
        lake(tmp_path).open_sink().begin(replace(), (Column("n", "INTEGER"),))

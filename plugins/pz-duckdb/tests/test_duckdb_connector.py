"""Tables of a database file: names, both tiers alike, one transaction, locks told plainly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pz_duckdb.connector import DuckDB

from pz_core.contract import ConnectionConfig, CursorBounds, ReadHints, ReadSpec, WriteSpec
from pz_core.contract.connector import ConnectorError, NativeTarget, SqlWriteSession
from pz_core.values import Column, quote_path


def store(project: Path, path: str = "store.duckdb") -> DuckDB:
    return DuckDB(ConnectionConfig("store", "duckdb", {"path": path}, str(project)))


def make(project: Path, *statements: str, name: str = "store.duckdb") -> None:
    with duckdb.connect(str(project / name)) as con:
        for sql in statements:
            con.execute(sql)


def streamed(project: Path, spec: ReadSpec) -> list[dict[str, Any]]:
    source = store(project).open_source()
    try:
        return [row for b in source.read(spec, source.partitions(spec)[0], 2) for row in b.to_pylist()]
    finally:
        source.close()


def scanned(project: Path, spec: ReadSpec) -> list[dict[str, Any]]:
    scan = store(project).open_source().native_scan(spec)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for setup in scan.setup:
            con.execute(setup.sql)
        return con.execute(scan.query).to_arrow_table().to_pylist()


TABLE = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', timestamp '2026-01-01'), "
    "(2, '', timestamp '2026-01-02 00:00:00.000001'), "
    '(3, NULL, NULL)) v(id, note, "at")'
)


@pytest.mark.parametrize(
    "spec",
    [
        ReadSpec("t"),
        ReadSpec("main.t", columns={"note": "varchar", "id": "bigint"}),
        ReadSpec(
            "t",
            bounds=CursorBounds("at", "timestamp", "2026-01-01T00:00:00.000000", False, "2026-01-03T00:00:00.000000"),
        ),
        ReadSpec("t", hints=ReadHints(("id",), "note = '' OR id = 3")),
    ],
)
def test_both_tiers_read_the_same_rows(tmp_path: Path, spec: ReadSpec) -> None:
    make(tmp_path, TABLE)
    native, universal = scanned(tmp_path, spec), streamed(tmp_path, spec)
    assert native == universal
    assert native


def test_bounds_hints_and_contract_cut_the_read(tmp_path: Path) -> None:
    make(tmp_path, TABLE)
    bounds = CursorBounds("at", "timestamp", "2026-01-01T00:00:00.000000", False)
    assert [r["id"] for r in streamed(tmp_path, ReadSpec("t", bounds=bounds))] == [2]
    hints = ReadHints(("note",), "id < 3")
    assert streamed(tmp_path, ReadSpec("t", hints=hints)) == [{"note": "a"}, {"note": ""}]


def test_an_empty_read_yields_one_batch_with_its_columns(tmp_path: Path) -> None:
    make(tmp_path, TABLE, "DELETE FROM t")
    source = store(tmp_path).open_source()
    [batch] = source.read(ReadSpec("t"), source.partitions(ReadSpec("t"))[0], 10)
    assert (batch.num_rows, batch.schema.names) == (0, ["id", "note", "at"])
    source.close()


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("7.5", "bigint"),
        ("'7.5'", "bigint"),
        ("9007199254740993", "double"),
        ("timestamp '2026-01-01 10:00:00'", "date"),
    ],
)
def test_a_contract_never_changes_a_value(tmp_path: Path, value: str, word: str) -> None:
    make(tmp_path, f"CREATE TABLE t AS SELECT {value} AS v")
    with pytest.raises(ConnectorError, match="column 'v'") as caught:
        streamed(tmp_path, ReadSpec("t", columns={"v": word}))
    assert caught.value.code == "PZ0812"
    with pytest.raises(duckdb.Error, match="PZ0812"):
        scanned(tmp_path, ReadSpec("t", columns={"v": word}))


@pytest.mark.parametrize("entity", ["a.b.c", "a.", ".a", "a..b"])
def test_names_of_more_than_two_parts_are_refused(tmp_path: Path, entity: str) -> None:
    [read] = store(tmp_path).validate_read(ReadSpec(entity))
    [write] = store(tmp_path).validate_write(WriteSpec(entity))
    assert read.code == write.code == "PZ0353"
    assert entity in read.message


def test_planning_opens_nothing(tmp_path: Path) -> None:
    connector = store(tmp_path)
    assert connector.open_source().native_scan(ReadSpec("t")).mechanism == "attach"
    assert isinstance(connector.open_sink().native_write(WriteSpec("t")), NativeTarget)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_refused_when_it_is_to_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"store\.t: database file store\.duckdb does not exist") as caught:
        store(tmp_path).open_source().resolve_scan(ReadSpec("t"))
    assert (caught.value.code, caught.value.transient) == ("PZ0353", False)
    with pytest.raises(ConnectorError):
        streamed(tmp_path, ReadSpec("t"))


def test_a_file_that_is_read_and_written_is_attached_once_by_one_statement(tmp_path: Path) -> None:
    connector = store(tmp_path)
    only_read = connector.open_source().native_scan(ReadSpec("t")).setup[0].sql
    assert "READ_ONLY" in only_read
    target = connector.open_sink().native_write(WriteSpec("u"))
    assert isinstance(target, NativeTarget)
    assert connector.open_source().native_scan(ReadSpec("t")).setup == target.setup


def session(project: Path, entity: str = "t") -> SqlWriteSession:
    made = store(project).open_sink().begin(WriteSpec(entity), (Column("id", "INTEGER"), Column("s", "VARCHAR")))
    assert isinstance(made, SqlWriteSession)
    return made


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([r[0] for r in rows], pa.int32()), "s": pa.array([r[1] for r in rows])})


def rows_of(project: Path, sql: str) -> list[Any]:
    with duckdb.connect(str(project / "store.duckdb"), read_only=True) as con:
        return con.execute(sql).fetchall()


def test_a_session_stages_in_order_and_commits_one_transaction(tmp_path: Path) -> None:
    write = session(tmp_path, 'a"b')
    assert write.columns() is None
    write.write(batch((2, ""), (1, None)))
    write.write(batch((3, "é\0'")))
    assert write.target.endswith(quote_path("main", 'a"b'))
    write.execute(f"CREATE TABLE {write.target} (id INTEGER, s VARCHAR)")
    write.execute(f"INSERT INTO {write.target} SELECT * FROM {write.staged} ORDER BY {write.order}")
    assert [c.name for c in write.columns() or ()] == ["id", "s"]
    [counted] = list(write.execute(f"SELECT count(*) AS n FROM {write.target}"))
    assert counted.to_pylist() == [{"n": 3}]
    assert write.commit().rows == 3
    assert rows_of(tmp_path, 'FROM "a""b"') == [(2, ""), (1, None), (3, "é\0'")]
    assert rows_of(tmp_path, "SELECT count(*) FROM duckdb_tables()") == [(1,)]


def test_an_abort_leaves_the_table_as_it_was_and_frees_the_file(tmp_path: Path) -> None:
    make(tmp_path, "CREATE TABLE t (id INTEGER, s VARCHAR)", "INSERT INTO t VALUES (1, 'old')")
    write = session(tmp_path)
    write.write(batch((9, "new")))
    write.execute(f"DELETE FROM {write.target}")
    write.abort()
    assert rows_of(tmp_path, "FROM t") == [(1, "old")]


def test_a_statement_that_fails_is_a_coded_error_and_abort_still_works(tmp_path: Path) -> None:
    write = session(tmp_path)
    with pytest.raises(ConnectorError, match=r"store\.t"):
        write.execute("SELECT * FROM nowhere")
    write.abort()
    assert not rows_of(tmp_path, "SELECT * FROM duckdb_tables()")


def test_a_schema_that_is_not_there_is_made_with_the_table_and_goes_with_an_abort(tmp_path: Path) -> None:
    session(tmp_path, "mart.t").abort()
    there = "FROM duckdb_schemas() WHERE schema_name = 'mart' AND database_name = 'store'"
    assert not rows_of(tmp_path, there)
    session(tmp_path, "mart.t").commit()
    assert rows_of(tmp_path, there)


def test_reader_and_writer_of_one_process_share_the_file(tmp_path: Path) -> None:
    make(tmp_path, TABLE)
    write = session(tmp_path, "u")
    assert len(streamed(tmp_path, ReadSpec("t"))) == 3
    write.abort()


def test_a_file_that_another_process_holds_is_a_transient_fault(tmp_path: Path) -> None:
    make(tmp_path, TABLE)
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "store.duckdb")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        with pytest.raises(ConnectorError, match=r"store\.duckdb is locked") as caught:
            streamed(tmp_path, ReadSpec("t"))
        other.stdin.close()
    assert caught.value.transient
    assert str(tmp_path) not in caught.value.message


def test_check_tells_a_database_from_anything_else(tmp_path: Path) -> None:
    assert "will create it" in store(tmp_path).check().message
    assert not store(tmp_path, "nowhere/store.duckdb").check().ok
    make(tmp_path, TABLE)
    assert store(tmp_path).check().ok
    (tmp_path / "text.duckdb").write_text("this is not a database at all")
    assert not store(tmp_path, "text.duckdb").check().ok


@pytest.mark.parametrize("path", [".pz/a.duckdb", "x/../.pz/runs/a.duckdb"])
def test_a_path_inside_the_state_folder_is_refused(tmp_path: Path, path: str) -> None:
    assert [f.code for f in store(tmp_path, path).validate()] == ["PZ0301"]
    assert not store(tmp_path, "data/a.duckdb").validate()


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, pz_duckdb as p; p.pz_connectors(); print([m for m in ('duckdb', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_filter_on_a_collated_text_is_left_to_whoever_compares_exactly(tmp_path: Path) -> None:
    make(tmp_path, "CREATE TABLE t (s VARCHAR COLLATE NOCASE)", "INSERT INTO t VALUES ('A'), ('a'), ('b')")
    spec = ReadSpec("t", hints=ReadHints(None, "(\"s\" <> 'a')"))
    assert [row["s"] for row in streamed(tmp_path, spec)] == ["A", "a", "b"]


def connection(project: Path, name: str, path: str) -> DuckDB:
    return DuckDB(ConnectionConfig(name, "duckdb", {"path": path}, str(project)))


def test_two_connections_to_one_file_attach_it_once(tmp_path: Path) -> None:
    make(tmp_path, TABLE)
    (tmp_path / "link.duckdb").symlink_to("store.duckdb")
    paths = {"one": "store.duckdb", "two": f"{tmp_path}/./store.duckdb", "three": "link.duckdb"}
    with duckdb.connect() as con:
        for name, path in paths.items():
            target = connection(tmp_path, name, path).open_sink().native_write(WriteSpec("t"))
            con.execute(target.setup[0].sql)
            scan = connection(tmp_path, name, path).open_source().native_scan(ReadSpec("t"))
            con.execute(scan.setup[0].sql)
            assert len(con.execute(scan.query).fetchall()) == 3


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    aliases = {
        connection(tmp_path, "c", f"{d}/m.duckdb").open_sink().native_write(WriteSpec("t")).catalog for d in "ab"
    }
    assert len(aliases) == 2


def test_the_place_of_a_write_is_one_for_all_spellings_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "link.duckdb").symlink_to("store.duckdb")

    def place(entity: str, path: str = "store.duckdb") -> str:
        return connection(tmp_path, "c", path).write_place(WriteSpec(entity))

    assert place("t") == place("main.T") == place("MAIN.t", "./x/../store.duckdb") == place("t", "link.duckdb")
    assert len({place("t"), place("u"), place("other.t"), place("t", "b.duckdb")}) == 4


def test_a_refused_row_does_not_show_its_values(tmp_path: Path) -> None:
    make(tmp_path, "CREATE TABLE t (id INTEGER, s VARCHAR PRIMARY KEY)", "INSERT INTO t VALUES (1, 'hunter2')")
    write = session(tmp_path)
    write.write(batch((9, "hunter2")))
    with pytest.raises(ConnectorError, match=r"store\.t.*primary key") as caught:
        write.execute(f"INSERT INTO {write.target} SELECT * FROM {write.staged}")
    write.abort()
    assert "hunter2" not in caught.value.render()

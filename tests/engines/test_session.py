from __future__ import annotations

import subprocess
import sys
import threading

import duckdb
import pytest

from pz_core.contract.connector import Setup
from pz_core.contract.extensions import loading
from pz_core.errors import PzError

KILLED = """
import os, signal, sys
from pz_core.contract.engine import EngineSettings, MaterialiseTask, NodeRef
from pz_core.engines.duckdb.engine import DuckDBEngine
class Control:
    attempt = 1
    def progress(self, *a): pass
    def raise_if_cancelled(self): pass
    def on_cancel(self, f): return lambda: None
engine = DuckDBEngine(EngineSettings(sys.argv[1], sys.argv[1] + '.spill'), None)
make = lambda name, sql, view=False: engine.materialise(MaterialiseTask(NodeRef('i', name), name, sql, view), Control())
make('rows', 'select i, i::varchar as t from range(300000) r(i)')
make('seen', 'select count(*) as n from staging.rows', True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_file_is_read_after_a_kill_and_its_views_too(tmp_path):
    path = tmp_path / "staging.duckdb"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -9
    assert (tmp_path / "staging.duckdb.wal").exists()
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS old (READ_ONLY)")
        assert con.execute("SELECT count(*), max(t) FROM old.staging.rows").fetchall() == [(300000, "99999")]
        assert con.execute("SELECT n FROM old.staging.seen").fetchall() == [(300000,)]


def test_close_releases_the_file_without_a_checkpoint(bench):
    bench.make("SELECT i FROM range(200000) r(i)")
    before = bench.path.stat().st_size
    bench.engine.close()
    bench.engine.close()
    assert (bench.folder / "staging.duckdb.wal").exists()
    assert bench.path.stat().st_size == before
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{bench.path}' AS old (READ_ONLY)")
        assert con.execute("SELECT count(*) FROM old.staging.orders").fetchall() == [(200000,)]
    with duckdb.connect(str(bench.path)) as con:  # and for writing: nobody holds it
        con.execute("CREATE TABLE t AS SELECT 1")


def test_settings_hold_on_every_cursor(fakes, tmp_path):
    bench = fakes.Bench(tmp_path, memory_limit="512MiB", threads=3)
    names = ("TimeZone", "memory_limit", "threads", "preserve_insertion_order", "arrow_lossless_conversion",
             "python_enable_replacements", "autoinstall_known_extensions", "enable_progress_bar")  # fmt: skip
    asked = ", ".join(f"current_setting('{n}')" for n in names)
    assert bench.ask(f"SELECT {asked}") == [("UTC", "512.0 MiB", 3, True, True, False, False, False)]
    assert not (tmp_path / "spill").exists()
    bench.engine.close()


def test_staging_means_the_schema_whatever_else_is_called_so(bench, tmp_path):
    bench.ask(f"ATTACH '{tmp_path}/other.duckdb' AS erp")
    bench.make("SELECT 1 AS a", "first")
    bench.make("SELECT a FROM staging.first", "second")
    assert bench.relations() == ["first", "second"]


def test_python_variables_are_no_tables(bench):
    hidden = [1, 2]  # noqa: F841
    with pytest.raises(PzError, match="hidden"):
        bench.make("SELECT * FROM hidden")


@pytest.mark.parametrize("settings", [{"memory_limit": "lots"}, {"threads": 0}])
def test_a_setting_that_duckdb_refuses_is_a_coded_error(fakes, tmp_path, settings):
    with pytest.raises(PzError) as caught:
        fakes.Bench(tmp_path, **settings)
    assert caught.value.code == "PZ0501" and caught.value.hint


def test_a_file_that_somebody_holds_is_a_coded_error(fakes, bench, tmp_path):
    code = "import duckdb, sys\ntry:\n duckdb.connect(sys.argv[1])\nexcept duckdb.Error: sys.exit(0)\nsys.exit(1)"
    assert subprocess.run([sys.executable, "-c", code, str(bench.path)], check=False).returncode == 0
    folder = tmp_path / "a" / "b"
    with pytest.raises(PzError) as caught:
        fakes.Bench(folder)
    assert caught.value.code == "PZ0501" and "staging.duckdb" in caught.value.message


def test_many_tasks_at_once(bench, fakes):
    errors: list[BaseException] = []

    def one(n: int) -> None:
        try:
            for i in range(5):
                bench.make(f"SELECT {n} AS n, i FROM range(1000) r(i)", f"t{n}_{i}", control=fakes.Control())
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert len(bench.relations()) == 40


def test_extensions_are_loaded_ahead_and_no_sql_can_load_unsigned_ones(fakes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("pz_core.contract.extensions._accepted", {})
    there = "SELECT loaded FROM duckdb_extensions() WHERE extension_name = 'httpfs'"
    for i in range(2):  # checked in the first, remembered in the second
        folder = tmp_path / str(i)
        folder.mkdir()
        bench = fakes.Bench(folder, ahead=(loading("httpfs"), Setup("LOAD '/nowhere/x.duckdb_extension'", "extension")))
        known = bench.engine._session._setups
        assert (loading("httpfs").sql in known and known[loading("httpfs").sql].done) or i == 0
        bench.engine._session._ahead.join(30)
        assert bench.ask(there) == [(True,)]
        assert bench.ask("SELECT current_setting('allow_unsigned_extensions')") == [(False,)]
        with pytest.raises(duckdb.Error):
            bench.ask("SET GLOBAL allow_unsigned_extensions = true")
        bench.engine.close()
    assert (tmp_path / "cache/pz/extensions.json").exists()
    folder = tmp_path / "plain"
    folder.mkdir()
    bench = fakes.Bench(folder)
    assert bench.ask(there) == [(False,)]
    assert bench.ask("SELECT current_setting('allow_unsigned_extensions')") == [(False,)]
    bench.engine.close()

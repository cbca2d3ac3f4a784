"""What a table is like: asked by DuckDB's extension, told as psycopg tells it, and waited for only once."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pz_postgres.catalog import describe_table, shared_state
from pz_postgres.connector import Postgres
from pz_postgres.control import Connected, connected
from pz_postgres.local import LOCAL
from pz_postgres.looking import looking
from pz_postgres.names import TableName
from pz_postgres.settings import Settings

from pz_core.contract.connector import ConnectorError, ReadSpec
from pz_core.testkit.project import ProjectTester

Connect = Callable[..., Postgres]

ODD = """
CREATE SCHEMA "a ""quoted"" 'schema' \\ %s";
CREATE TYPE mood AS ENUM ('ok', 'so-so');
CREATE DOMAIN email AS varchar(50) CHECK (value <> '');
CREATE DOMAIN mail AS email;
CREATE TABLE "a ""quoted"" 'schema' \\ %s"."größe %% 100 % 'x'" (
  id bigint GENERATED ALWAYS AS IDENTITY, needed text NOT NULL, given text NOT NULL DEFAULT 'x',
  "Ünï ""c"" 'q' %s" numeric(12, 3), twice int GENERATED ALWAYS AS (1 + 1) STORED,
  m mood, ms mood[], e mail, es varchar(7)[], t timestamp(3), l text COLLATE "C",
  gone int, c char(4), iv interval day to second(2), b bit varying(9), o oid, j jsonb);
ALTER TABLE "a ""quoted"" 'schema' \\ %s"."größe %% 100 % 'x'" DROP COLUMN gone;
CREATE VIEW seen AS SELECT * FROM "a ""quoted"" 'schema' \\ %s"."größe %% 100 % 'x'";
CREATE TABLE nothing ();
CREATE TABLE plain (id int, name text);
"""
NAMES = (TableName("a \"quoted\" 'schema' \\ %s", "größe %% 100 % 'x'"), TableName("public", "seen"),
         TableName("public", "plain"), TableName("public", "nothing"), TableName("public", "absent"),
         TableName("pg_catalog", "pg_class"))  # fmt: skip


def settings_of(address: Any, connector: Connect, **more: Any) -> Settings:
    return connector(address, **more)._settings


def test_the_extension_tells_what_psycopg_tells(pg: Any, connector: Connect) -> None:
    with pg.connect() as held:
        held.execute(ODD.encode())
    settings = settings_of(pg, connector)
    cursor = LOCAL.cursor()
    with looking(cursor, settings, "it") as own, connected(settings) as held:
        other = Connected(held, "it")
        for name in NAMES:
            table = describe_table(other, name)
            assert describe_table(own, name) == table
            assert shared_state(own, name) == shared_state(other, name)
            assert (table is None) == (name.table in ("nothing", "absent"))
    cursor.close()


def test_a_look_leaves_no_connection_and_no_database(pg: Any, connector: Connect) -> None:
    pg.run("CREATE TABLE t (id int)")
    before = LOCAL.cursor().execute("SELECT count(*) FROM duckdb_databases()").fetchall()
    source = connector(pg).open_source()
    source.schema(ReadSpec("t"))
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pz' AND datname = current_database()"
    for _ in range(100):  # a server takes its moment to see one off
        if pg.run(asked) == [(0,)]:
            break
        threading.Event().wait(0.05)
    else:
        pytest.fail("a connection is left")
    assert LOCAL.cursor().execute("SELECT count(*) FROM duckdb_databases()").fetchall() == before
    source.close()


def test_a_run_that_only_reads_needs_no_psycopg(pg: Any, tmp_path: Path) -> None:
    pg.run("CREATE TABLE rows AS SELECT i AS id, i::numeric(9, 2) AS price FROM generate_series(1, 9) i")
    project = ProjectTester(tmp_path / "shop")
    project.write(
        {
            "connections.yml": {
                "shop": {"connector": "postgres", **pg.options()},
                "out": {"connector": "localfiles", "root": "out"},
            },
            "pipelines/p.sql": "INSERT INTO {{ sink('out', 'rows.parquet') }}\n"
            "SELECT * FROM {{ source('shop', 'rows') }}",
        }
    )
    script = (
        "import sys\nfrom pz_core.cli.main import main\n"
        "sys.argv = ['pz', 'run']\ntry:\n    main()\nfinally:\n    print('psycopg' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path / "shop", capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr.split()[-1]) == (0, "False"), done.stderr + done.stdout


class Deaf:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self.taken.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()
        for one in self.taken:
            one.close()


@pytest.fixture
def deaf() -> Iterator[Deaf]:
    made = Deaf()
    yield made
    made.close()


def test_a_server_that_does_not_answer_is_waited_for_once(deaf: Deaf, pg: Any, connector: Connect) -> None:
    source = connector(pg, host="127.0.0.1", port=deaf.port, connect_timeout_seconds=2).open_source()
    with pytest.raises(ConnectorError, match="timeout expired") as caught:
        source.schema(ReadSpec("t"))
    source.close()
    assert caught.value.transient
    assert "connect_timeout_seconds" in str(caught.value.hint)
    assert str(pg.options()["password"]) not in str(caught.value)
    assert len(deaf.taken) == 1


def test_a_look_that_takes_too_long_is_given_up_once(pg: Any, connector: Connect) -> None:
    pg.run("CREATE TABLE t (id int)")
    with pg.connect() as held, held.transaction():
        held.execute("LOCK TABLE pg_catalog.pg_trigger IN ACCESS EXCLUSIVE MODE")
        source = connector(pg, command_timeout_seconds=1).open_source()
        with pytest.raises(ConnectorError) as caught:
            source.schema(ReadSpec("t"))
        source.close()
    assert caught.value.transient
    assert "command_timeout_seconds" in str(caught.value.hint)


def test_what_the_extension_cannot_tell_is_asked_of_psycopg(
    pg: Any, connector: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise duckdb.IOException("no")

    monkeypatch.setattr("pz_postgres.looking.OwnLook.ask", refuse)
    pg.run("CREATE TABLE t (id int, name text)")
    source = connector(pg).open_source()
    assert [c.name for c in source.schema(ReadSpec("t"))] == ["id", "name"]
    source.close()
    wrong = connector(pg, database="nowhere").open_source()
    with pytest.raises(ConnectorError, match='database "nowhere" does not exist') as caught:
        wrong.schema(ReadSpec("t"))
    wrong.close()
    assert caught.value.hint == "correct database: of the connection"

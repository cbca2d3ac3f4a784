"""What a table is like: asked by DuckDB's extension, told as psycopg tells it, and waited for only once."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pz_postgres.catalog import PgColumn, describe_table
from pz_postgres.connector import Postgres
from pz_postgres.control import connected, connection_error
from pz_postgres.local import LOCAL, Local
from pz_postgres.looking import look_at
from pz_postgres.names import TableName

from pz_core.contract.connector import ConnectorError, ReadSpec, WriteSpec
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
CREATE TABLE parts (id int, day date) PARTITION BY RANGE (day);
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE TABLE parent (id int);
CREATE TABLE child (more text) INHERITS (parent);
CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one;
CREATE TABLE hidden (id int);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE TABLE ruled (id int);
CREATE RULE nope AS ON INSERT TO ruled DO INSTEAD NOTHING;
CREATE TABLE pulled (id int);
CREATE FUNCTION pull() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER pull BEFORE INSERT ON pulled FOR EACH ROW EXECUTE FUNCTION pull();
CREATE SCHEMA "Public";
CREATE TABLE "Public"."twin" (id int);
CREATE TABLE twin (id int, "Wide {0} {schema} %s" point);
"""
ODD_NAME = TableName("a \"quoted\" 'schema' \\ %s", "größe %% 100 % 'x'")
PUBLIC = ("seen", "plain", "nothing", "absent", "parts", "part", "parent", "child", "kept", "hidden", "ruled", "pulled")
NAMES = (ODD_NAME, *(TableName("public", n) for n in PUBLIC), TableName("Public", "twin"), TableName("public", "twin"),
         TableName("pg_catalog", "pg_class"), TableName("absent", "absent"))  # fmt: skip
#: Tables that may be read over several connections, and those that rows can be copied straight into.
SHARED = (ODD_NAME.table, "plain", "part", "child", "hidden", "ruled", "pulled", "pg_class")
PLAIN = (ODD_NAME.table, "plain", "parts", "part", "parent", "child", "twin", "pg_class")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg is not asked."""
    monkeypatch.setattr("pz_postgres.looking.connected", lambda _: pytest.fail("psycopg was asked"))


def refusal_of(made: Postgres, told: str | None = None) -> ConnectorError:
    """What a read that cannot look at its table says."""
    source = made.open_source()
    with pytest.raises(ConnectorError, match=told) as caught:
        source.schema(ReadSpec("t"))
    source.close()
    return caught.value


def test_the_extension_tells_what_psycopg_tells(pg: Any, connector: Connect, alone: None) -> None:
    with pg.connect() as held:
        held.execute(ODD.encode())
    settings = connector(pg)._settings
    with connected(settings) as held:
        for name in NAMES:
            table = look_at(settings, name, "it")
            assert table == describe_table(held, name, "it", shared=True)
            assert (table is None) == (name.table in ("nothing", "absent"))
            if table is not None:
                assert (table.shared is not None) == (name.table in SHARED), name
                assert table.plain == (name.table in PLAIN), name


def test_a_column_is_described_by_the_type_behind_its_domains(pg: Any, connector: Connect, alone: None) -> None:
    with pg.connect() as held:
        held.execute(
            b"""
            CREATE DOMAIN small AS numeric(5, 2);
            CREATE DOMAIN smaller AS small CHECK (value < 10);
            CREATE DOMAIN words AS varchar(9)[];
            CREATE DOMAIN word AS text COLLATE "C";
            CREATE TYPE mood AS ENUM ('ok');
            CREATE TABLE t (a smaller NOT NULL, b words, c small[], d varchar(3), e varchar(5), f varchar, gone int,
              g timestamp(3)[][], h mood[], i word DEFAULT 'x' NOT NULL, j int GENERATED ALWAYS AS IDENTITY,
              k int GENERATED ALWAYS AS (1) STORED, m int4range, "N {0} {schema} %s ' \\" oid)
            """
        )
        held.execute("ALTER TABLE t DROP COLUMN gone")
    found = look_at(connector(pg)._settings, TableName("public", "t"), "it")
    assert found is not None
    told = {"kind": "b", "system": True}
    assert found.columns == (
        PgColumn("a", "smaller", "numeric", 5 << 16 | 2 + 4, domain=True, needed=True, **told),
        PgColumn("b", "words", "varchar", 9 + 4, array=True, domain=True, **told),
        PgColumn("c", "small[]", "small", array=True, kind="d", system=False),
        PgColumn("d", "character varying(3)", "varchar", 3 + 4, **told),
        PgColumn("e", "character varying(5)", "varchar", 5 + 4, **told),
        PgColumn("f", "character varying", "varchar", **told),
        PgColumn("g", "timestamp(3) without time zone[]", "timestamp", 3, array=True, **told),
        PgColumn("h", "mood[]", "mood", array=True, kind="e", system=False),
        PgColumn("i", "word", "text", domain=True, **told),
        PgColumn("j", "integer", "int4", **told),
        PgColumn("k", "integer", "int4", generated=True, **told),
        PgColumn("m", "int4range", "int4range", kind="r"),
        PgColumn("N {0} {schema} %s ' \\", "oid", "oid", **told),
    )
    assert found.version // 10_000 in (16, 18)


def test_columns_that_are_twins_but_for_case_are_refused(pg: Any, connector: Connect, alone: None) -> None:
    pg.run('CREATE TABLE twins (a int, "A" int)')
    with pytest.raises(ConnectorError, match="one name, case aside"):
        look_at(connector(pg)._settings, TableName("public", "twins"), "it")


def test_a_look_leaves_no_connection_and_no_database(pg: Any, connector: Connect) -> None:
    pg.run("CREATE TABLE t (id int)")
    before = LOCAL.cursor().execute("SELECT count(*) FROM duckdb_databases()").fetchall()
    source = connector(pg).open_source()
    source.schema(ReadSpec("t"))
    source.close()
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pz' AND datname = current_database()"
    for _ in range(100):  # a server takes its moment to see one off
        if pg.run(asked) == [(0,)]:
            break
        threading.Event().wait(0.05)
    else:
        pytest.fail("a connection is left")
    assert LOCAL.cursor().execute("SELECT count(*) FROM duckdb_databases()").fetchall() == before


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
    made = connector(pg, host="127.0.0.1", port=deaf.port, connect_timeout_seconds=2)
    refusal = refusal_of(made, "timeout expired")
    assert refusal.transient
    assert "connect_timeout_seconds" in str(refusal.hint)
    assert str(pg.options()["password"]) not in str(refusal)
    assert len(deaf.taken) == 1


def test_a_look_that_takes_too_long_is_given_up_once(pg: Any, connector: Connect, alone: None) -> None:
    pg.run("CREATE TABLE t (id int)")
    with pg.connect() as held, held.transaction():
        held.execute("LOCK TABLE pg_catalog.pg_trigger IN ACCESS EXCLUSIVE MODE")
        refusal = refusal_of(connector(pg, command_timeout_seconds=1), "canceling statement due to")
    assert refusal.transient
    assert "command_timeout_seconds" in str(refusal.hint)


def test_an_extension_that_is_damaged_is_named_with_what_to_do(
    pg18: Any, connector: Connect, alone: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "postgres_scanner.duckdb_extension"
    bad.write_bytes(b"no extension at all" * 100)
    monkeypatch.setattr("pz_core.contract.extensions.extension_file", lambda *_, **__: bad)
    monkeypatch.setattr("pz_postgres.looking.LOCAL", Local())
    with pytest.raises(ConnectorError) as caught:
        look_at(connector(pg18)._settings, TableName("public", "t"), "depot.t")
    assert caught.value.code == "PZ0311"
    assert str(bad) in caught.value.message
    assert "--force-reinstall duckdb-extension-postgres-scanner==" in str(caught.value.hint)


def test_a_look_has_as_long_as_a_command(
    pg: Any, connector: Connect, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pz_postgres.looking.table_query", lambda *_, **__: "SELECT 1 AS one FROM pg_sleep(60)")
    refusal = refusal_of(connector(pg, command_timeout_seconds=1), "statement timeout")
    assert refusal.transient
    assert "command_timeout_seconds" in str(refusal.hint)


REFUSED = 'connection to server at "localhost" (::1), port 5432 failed: Connection refused\n\tIs the server running?\n'
WRONG = 'connection to server at "localhost" (127.0.0.1), port 5432 failed: FATAL:  password authentication failed\n'
TWICE = "Multiple connection attempts failed. All failures were:\n- host: 'localhost', port: '5432': "


@pytest.mark.parametrize(
    "text", [REFUSED + WRONG, WRONG + REFUSED, f"connection failed: {WRONG}{TWICE}connection failed: {REFUSED}"]
)
def test_a_server_that_refuses_says_more_than_an_address_without_one(text: str, connector: Connect, pg18: Any) -> None:
    told = connection_error(text, connector(pg18)._settings)
    assert told.message.endswith(": password authentication failed")
    assert not told.transient


@pytest.mark.parametrize(
    ("wrong", "told", "hint"),
    [
        ({"password": 'not\' "it" failed: no'}, "password authentication failed", "the password or the user is wrong"),
        ({"database": 'no\' "where": x'}, 'database "no\' "where": x" does not exist', "correct database:"),
        ({"port": 1}, "Connection refused", "nothing listens there"),
        ({"host": "nowhere.invalid"}, "could not translate host name", "the host is not known"),
        ({"ssl_mode": "require"}, "server does not support SSL", "TLS: check ssl_mode:"),
    ],
)
def test_a_refused_connection_is_told_at_once_and_as_psycopg_tells_it(
    pg: Any, connector: Connect, alone: None, wrong: dict[str, Any], told: str, hint: str
) -> None:
    made = connector(pg, **wrong)
    refusal = refusal_of(made)
    shown = f"connection 'depot' ({made._settings.shown}): "
    assert refusal.message.startswith(shown)
    assert told in refusal.message.removeprefix(shown)
    assert str(refusal.hint).startswith(hint)
    assert "application_name" not in str(refusal)
    assert str(wrong.get("password", pg.options()["password"])) not in str(refusal)
    report = made.check()
    assert report.hint == refusal.hint
    assert report.message == refusal.message or "host" in wrong  # psycopg asks for the address by itself


def test_a_connection_lost_in_a_look_is_told_and_may_be_tried_again(
    pg: Any, connector: Connect, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run("CREATE TABLE t (id int)")
    ends = "SELECT pg_terminate_backend(pg_backend_pid())"
    monkeypatch.setattr("pz_postgres.looking.table_query", lambda *_, **__: ends)
    refusal = refusal_of(connector(pg), r"terminating connection|the connection to the server was lost")
    assert refusal.transient
    assert "the connection was lost" in str(refusal.hint)


def test_what_the_extension_cannot_tell_is_asked_of_psycopg(
    pg: Any, connector: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run("CREATE TABLE t (id int, name text)")
    with monkeypatch.context() as patch:
        patch.setattr("pz_postgres.looking.table_query", lambda *_, **__: "SELECT nonsense")
        source = connector(pg).open_source()
        assert [c.name for c in source.schema(ReadSpec("t"))] == ["id", "name"]
        source.close()


@pytest.mark.parametrize(("options", "named"), [({}, False), ({"query": "SELECT 1"}, True), ({"partitions": 2}, True)])
def test_what_needs_psycopg_has_it_imported_ahead(
    pg: Any, connector: Connect, options: dict[str, Any], named: bool
) -> None:
    made = connector(pg)
    assert made.imports(ReadSpec("t", options)) == (("psycopg",) if named else ())
    assert made.imports(WriteSpec("t")) == ("psycopg",)

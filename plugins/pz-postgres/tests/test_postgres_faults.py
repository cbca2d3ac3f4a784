"""A server that goes away: a coded result, the old rows or the new, nothing left behind, and the next run finishes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pz_postgres.connector import Postgres

from pz_core.contract.connector import ConnectorError, ReadSpec, WriteSpec
from pz_core.testkit.bench import Bench
from pz_core.testkit.proxy import DroppingProxy

TIERS = pytest.mark.parametrize("tier", ["native", "universal"])
WRITES = pytest.mark.parametrize("tier", ["native", "universal"])
REPLACE = WriteSpec("board", strategy="replace", load_mode="program", run_id="r")


@pytest.fixture
def board(pg18: Any) -> Any:
    pg18.run("CREATE TABLE board AS SELECT i::bigint AS i, 'old' AS s FROM generate_series(1, 20000) i")
    return pg18


def through(address: Any, **conditions: Any) -> tuple[DroppingProxy, Any]:
    proxy = DroppingProxy((address.host, address.port), **conditions)
    return proxy, dataclasses.replace(address, port=proxy.port)


def state(address: Any) -> list[Any]:
    return address.run("SELECT s, count(*) FROM board GROUP BY s ORDER BY s")


def orphans(address: Any) -> list[Any]:
    return address.run("SELECT relname FROM pg_class WHERE relname LIKE 'pz\\_%'")


@TIERS
def test_a_read_that_loses_its_connection_may_be_tried_again(
    board: Any, bench: Callable[..., Bench], tier: Any
) -> None:
    proxy, address = through(board, after_received=200_000)
    with proxy:
        made = bench(address)
        with pytest.raises(ConnectorError) as caught:
            made.land(ReadSpec("board"), tier)
        assert caught.value.transient and proxy.dropped == 1
        assert len(made.land(ReadSpec("board"), tier).rows.texts) == 20_000


@WRITES
def test_a_write_that_loses_its_connection_leaves_the_old_rows(
    board: Any, bench: Callable[..., Bench], tier: Any
) -> None:
    proxy, address = through(board, after_sent=100_000)
    rows = "SELECT i, 'new' AS s FROM range(30000) r(i)"
    with proxy:
        made = bench(address)
        with pytest.raises(ConnectorError) as caught:
            made.drain(rows, REPLACE, tier)
        assert caught.value.transient and proxy.dropped == 1
        assert state(board) == [("old", 20_000)] and orphans(board) == []
        made.drain(rows, REPLACE, tier)
    assert state(board) == [("new", 30_000)]


@WRITES
@pytest.mark.parametrize("answered", [False, True], ids=["not-delivered", "not-answered"])
def test_what_became_of_a_commit_is_found_out(
    board: Any, bench: Callable[..., Bench], tier: Any, answered: bool
) -> None:
    proxy, address = through(board, after_seeing=b"COMMIT\0", swallow_answer=answered)
    with proxy:
        made = bench(address)
        rows = "SELECT i, 'new' AS s FROM range(5) r(i)"
        if answered:
            assert made.drain(rows, REPLACE, tier).rows_written == 5
            assert state(board) == [("new", 5)]
        else:
            with pytest.raises(ConnectorError) as caught:
                made.drain(rows, REPLACE, tier)
            assert caught.value.transient and state(board) == [("old", 20_000)]
        assert proxy.dropped == 1 and orphans(board) == []


@WRITES
def test_where_nothing_can_be_found_out_the_result_says_so_and_is_not_tried_again(
    board: Any, bench: Callable[..., Bench], connector: Callable[..., Postgres], tier: Any, monkeypatch: Any
) -> None:
    from pz_postgres.session import TableSession

    monkeypatch.setattr(TableSession, "_outcome", lambda *_: None)
    proxy, address = through(board, after_seeing=b"COMMIT\0", swallow_answer=True)
    with proxy:
        with pytest.raises(ConnectorError, match="cannot be found out") as caught:
            bench(address).drain("SELECT 1 AS i, 'new' AS s", REPLACE, tier)
        assert not caught.value.transient


@pytest.fixture
def server() -> Iterator[Any]:
    from servers import Unavailable
    from servers.postgres import start_postgres

    try:
        made = start_postgres(18)
    except Unavailable as error:
        pytest.skip(str(error))
    yield made
    made.stop()


def test_retry_finishes_what_a_killed_server_broke_off(server: Any, tmp_path: Path) -> None:
    address = server.address
    address.run("CREATE TABLE board AS SELECT 1::bigint AS i, 'old' AS s")
    address.run(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END'"
    )
    address.run("CREATE TRIGGER t BEFORE INSERT ON board FOR EACH STATEMENT EXECUTE FUNCTION die()")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "project.yml").write_text("name: killed\nversion: 0.1.0\n", encoding="utf-8")
    depot = {"connector": "postgres", **address.options(), "retry": {"max_attempts": 1}}
    (tmp_path / "connections.yml").write_text(yaml.safe_dump({"depot": depot}), encoding="utf-8")
    (tmp_path / "pipelines" / "board.sql").write_text(
        "INSERT INTO {{ sink('depot', 'board', strategy: 'replace') }}\nselect i, 'new' as s from range(1000) r(i)",
        encoding="utf-8",
    )
    pz = [sys.executable, "-m", "pz_core"]
    running = subprocess.Popen([*pz, "run"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    from servers import wait_until

    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    wait_until(lambda: address.run(asleep) == [(1,)], "the load to be under way")
    server.kill()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1 and "PZ05" in err and "Traceback" not in out + err
    assert address.password not in out + err
    server.restart()
    assert state(address) == [("old", 1)] and orphans(address) == []
    address.run("DROP TRIGGER t ON board")
    done = subprocess.run([*pz, "retry"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert state(address) == [("new", 1000)]
    last = sorted((tmp_path / ".pz" / "runs").glob("2*"))[-1]
    nodes = json.loads((last / "run_results.json").read_text(encoding="utf-8"))["nodes"]
    assert any("binary" in str(node.get("choices")) for node in nodes)

"""The kit's tools: the corpus is what it says, projects run, the clock stands, the proxy drops."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from pz_core.testkit import Broken, DroppingProxy, FakeClock, ProjectTester, corpus
from pz_core.testkit.rows import Sent
from pz_core.values import CONTRACT_TYPES


def test_the_corpus_has_every_type_word_and_stays_exact() -> None:
    assert {s.family for s in corpus.SAMPLES} == {*CONTRACT_TYPES, "nested"}
    for sample in corpus.SAMPLES:
        table = sample.table()
        assert table.num_rows == len(sample.values)
        sent = Sent(table)
        sent.must_be(sent.rows)


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ("SELECT '' AS v", "SELECT NULL::VARCHAR AS v"),
        ("SELECT 0.0::DOUBLE AS v", "SELECT '-0.0'::DOUBLE AS v"),
        ("SELECT 'nan'::DOUBLE AS v", "SELECT NULL::DOUBLE AS v"),
        ("SELECT 9007199254740993 AS v", "SELECT 9007199254740992 AS v"),
        ("SELECT 9007199254740993 AS v", "SELECT 9007199254740993::DOUBLE AS v"),
        ("SELECT 1 AS v UNION ALL SELECT 1", "SELECT 1 AS v"),
        ("SELECT 'é' AS v", "SELECT 'e\u0301' AS v"),
        ("SELECT '{\"a\": 1}'::JSON AS v", "SELECT '{\"a\": 1.0}'::JSON AS v"),
        ("SELECT [NULL, 'NULL'] AS v", "SELECT ['NULL', NULL] AS v"),
    ],
)
def test_a_difference_is_found(sent: str, arrived: str) -> None:
    with pytest.raises(Broken):
        Sent(corpus.arrow_table(sent)).must_be(Sent(corpus.arrow_table(arrived)).rows)


def test_a_type_of_the_place_is_accepted_only_where_it_holds_the_value() -> None:
    Sent(corpus.arrow_table("SELECT 5::HUGEINT AS v"), {"HUGEINT": "DECIMAL(38,0)"}).must_be(
        Sent(corpus.arrow_table("SELECT 5::DECIMAL(38,0) AS v")).rows
    )
    Sent(corpus.arrow_table("SELECT '{\"a\": 1}'::JSON AS v")).must_be(
        Sent(corpus.arrow_table("SELECT '{ \"a\":1 }'::JSON AS v")).rows
    )
    lossy = Sent(corpus.arrow_table("SELECT 0.5::DOUBLE AS v"), {"DOUBLE": "DECIMAL(2,0)"})
    with pytest.raises(Broken):
        lossy.must_be(Sent(corpus.arrow_table("SELECT 0::DECIMAL(2,0) AS v")).rows)


@pytest.mark.parametrize("process", [False, True])
def test_a_project_runs(tmp_path: Path, process: bool) -> None:
    project = ProjectTester(tmp_path)
    project.write(
        {
            "connections.yml": {"lake": {"connector": "localfiles", "root": "lake"}},
            "pipelines/a.sql": "INSERT INTO {{ sink('lake', 'a', strategy: 'replace') }}\nSELECT 1 AS n, 'x' AS t",
        }
    )
    said = project.run("run", process=process)
    assert (said.code, said.errors) == (0, ()), said.err
    assert project.results()["status"] == "success"
    assert project.rows("lake/a/*.parquet", order="n").texts == (("1", "x"),)
    project.write({"pipelines/a.sql": "SELECT {{ nothing }}"})
    said = project.run("validate", process=process)
    assert said.code == 2
    assert said.errors == ("PZ0104",)
    assert len(project.runs()) == 1


def test_a_run_in_process_leaves_no_trace_in_this_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path.cwd()
    said = ProjectTester(tmp_path, {"PZ_KIT": "1"}).run("ls")
    assert said.code in (0, 2)
    assert Path.cwd() == before
    assert capsys.readouterr() == ("", "")


def test_the_clock_passes_only_when_told() -> None:
    clock = FakeClock()
    with clock.installed():
        began = time.monotonic()
        time.sleep(3600)
        assert time.monotonic() - began == 3600
        clock.advance(60)
    assert clock.now().isoformat() == "2026-01-01T01:01:00+00:00"
    assert clock.slept == [3600]
    assert time.monotonic() != clock.monotonic()
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)


@contextmanager
def echo() -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """A server that answers every read with the same bytes, and what it has read."""
    seen: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with closing(client):
            try:
                while data := client.recv(65_536):
                    seen.append(data)
                    client.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[:2], seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def answered(proxy: DroppingProxy, data: bytes) -> bytes:
    """What comes back through the proxy until it is all there or the connection is gone."""
    back = b""
    try:
        with socket.create_connection((proxy.host, proxy.port), timeout=5) as client:
            client.sendall(data)
            while len(back) < len(data) and (got := client.recv(65_536)):
                back += got
    except OSError:
        pass
    return back


def until(seen: list[bytes], wanted: bytes) -> bytes:
    limit = time.monotonic() + 5
    while b"".join(seen) != wanted and time.monotonic() < limit:
        time.sleep(0.005)
    return b"".join(seen)


def test_the_proxy_forwards_until_it_is_told_otherwise() -> None:
    with echo() as (target, _), DroppingProxy(target) as proxy:
        assert answered(proxy, b"hello") == b"hello"
        proxy.down = True
        assert answered(proxy, b"hello") == b""
        assert (proxy.connections, proxy.dropped) == (2, 0)


def test_the_proxy_drops_after_so_many_bytes_either_way() -> None:
    with echo() as (target, seen), DroppingProxy(target, after_sent=3) as proxy:
        assert len(answered(proxy, b"hello")) <= 3
        assert until(seen, b"hel") == b"hel"
        assert answered(proxy, b"again") == b"again"
        assert proxy.dropped == 1
    with echo() as (target, _), DroppingProxy(target, after_received=3, times=2) as proxy:
        assert [answered(proxy, b"hello") for _ in range(3)][2] == b"hello"
        assert proxy.dropped == 2


def test_the_proxy_drops_at_a_word_before_or_after_the_server_has_it() -> None:
    with echo() as (target, seen), DroppingProxy(target, after_seeing=b"COMMIT") as proxy:
        assert answered(proxy, b"COMMIT") == b""
        assert seen == []
        assert answered(proxy, b"COMMIT") == b"COMMIT"
    with echo() as (target, seen), DroppingProxy(target, after_seeing=b"COMMIT", swallow_answer=True) as proxy:
        assert answered(proxy, b"COMMIT") == b""
        assert until(seen, b"COMMIT") == b"COMMIT"
        assert proxy.dropped == 1


def test_the_proxy_sees_a_word_that_comes_in_two_pieces() -> None:
    with echo() as (target, _), DroppingProxy(target, after_seeing=b"COMMIT") as proxy:
        with socket.create_connection((proxy.host, proxy.port), timeout=5) as client:
            client.sendall(b"COM")
            assert client.recv(10) == b"COM"
            client.sendall(b"MIT")
            try:
                assert client.recv(10) == b""
            except OSError:
                pass
        assert proxy.dropped == 1


def test_samples_can_stand_side_by_side() -> None:
    chosen = [corpus.sample("bigint"), corpus.sample("boolean")]
    table: pa.Table = corpus.arrow_table(corpus.together(chosen))
    assert table.schema.names == ["bigint", "boolean"]
    assert table.num_rows == max(len(s.values) for s in chosen)

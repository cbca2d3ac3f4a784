"""A store that refuses, breaks off, dies: what is told, what is left, and that the next attempt finishes."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pz_s3 import client
from pz_s3.connector import S3
from servers.proxy import Proxy, proxy_to
from servers.s3 import start_s3

from pz_core.contract import ConnectionConfig, Secret
from pz_core.contract.connector import ConnectorError

BIG = "SELECT i AS id, hash(i)::VARCHAR || hash(i + 1)::VARCHAR AS x FROM range(400_000) t(i)"


@pytest.fixture
def proxy(s3: Any) -> Iterator[Proxy]:
    host, port = s3.endpoint.split(":")
    with proxy_to(host, int(port)) as made:
        yield made


@pytest.fixture
def shaky(moves: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bucket, through a way that can break."""
    monkeypatch.setattr(client, "PART_BYTES", 5 * 1024 * 1024)
    moves.connections["lake"] = moves.connection("lake", endpoint=f"127.0.0.1:{proxy.port}")
    return moves


def test_a_connection_that_breaks_while_rows_are_read_may_pass_and_the_next_attempt_reads_all(
    shaky: Any, s3: Any, proxy: Proxy, tier: str
) -> None:
    s3.put("t.csv", "id,x\n" + "".join(f"{i},{'x' * 40}\n" for i in range(60_000)))
    proxy.cut_answer = lambda data, passed: passed > 500_000
    with pytest.raises(ConnectorError) as caught:
        shaky.land(tier, options={"format": "csv"})
    assert caught.value.transient, str(caught.value)
    assert caught.value.code == "PZ0501" and proxy.cuts
    assert s3.secret not in str(caught.value) and s3.key not in str(caught.value)
    assert shaky.left() == []
    proxy.heal()
    assert len(shaky.land(tier, options={"format": "csv"})) == 60_000


def test_a_connection_that_breaks_during_an_upload_leaves_the_old_object_and_no_parts(
    shaky: Any, s3: Any, proxy: Proxy, tier: str
) -> None:
    s3.put("w/w.parquet", "old")
    proxy.cut_request = lambda data, passed: passed > 3_000_000
    with pytest.raises(ConnectorError) as caught:
        shaky.drain(BIG, tier, options={"format": "parquet"})
    assert caught.value.transient, str(caught.value)
    assert (s3.get("w/w.parquet"), s3.uploads(), shaky.left()) == (b"old", [], [])
    proxy.heal()
    shaky.drain(BIG, tier, options={"format": "parquet"})
    assert len(shaky.land(tier, options={"path": "w/w.parquet"})) == 400_000


def test_parts_that_could_not_be_discarded_are_by_the_next_attempt(shaky: Any, s3: Any, proxy: Proxy) -> None:
    def cut(data: bytes, passed: int) -> bool:
        if passed > 3_000_000:
            proxy.refuse()
        return passed > 3_000_000

    proxy.cut_request = cut
    with pytest.raises(ConnectorError):
        shaky.drain(BIG, options={"format": "parquet"})
    assert s3.uploads() == ["w/w.parquet"]
    assert [name.rpartition(".upload")[1] for name in shaky.left() if "/" in name] == [".upload"]
    proxy.heal()
    shaky.drain("SELECT 1 AS id", options={"format": "csv"})
    assert (s3.uploads(), s3.listing(), shaky.left()) == ([], ["w/w.csv"], [])


def test_a_lost_answer_to_the_last_request_is_told_and_the_next_attempt_makes_one_object(
    shaky: Any, s3: Any, proxy: Proxy, tier: str
) -> None:
    """The store has the new object, and we cannot know: the same key is written again."""
    proxy.cut_answer = lambda data, passed: b"CompleteMultipartUploadResult" in data
    with pytest.raises(ConnectorError) as caught:
        shaky.drain(BIG, tier, strategy="append", options={"format": "parquet"})
    assert caught.value.transient
    proxy.heal()
    shaky.drain(BIG, tier, strategy="append", options={"format": "parquet"})
    assert (len(s3.listing()), s3.uploads(), shaky.left()) == (1, [], [])


def test_a_store_that_is_killed_during_a_write_has_the_old_object_when_it_is_back(
    moves: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PART_BYTES", 5 * 1024 * 1024)
    server = start_s3()
    try:
        with server.store.bucket_of_its_own() as own:
            moves.store = own
            moves.connections["lake"] = moves.connection("lake")
            moves.drain("SELECT 1 AS id", options={"format": "parquet"})
            real = client.Client._send

            def send(self: client.Client, *arguments: Any) -> Any:
                parts = real(self, *arguments)
                server.kill()
                return parts

            monkeypatch.setattr(client.Client, "_send", send)
            with pytest.raises(ConnectorError) as caught:
                moves.drain(BIG, options={"format": "parquet"})
            assert caught.value.transient
            monkeypatch.setattr(client.Client, "_send", real)
            server.restart()
            assert moves.land("native", options={"path": "w/w.parquet"}) == [(1,)]
            moves.drain(BIG, options={"format": "parquet"})
            assert len(moves.land("native", options={"path": "w/w.parquet"})) == 400_000
            assert (own.uploads(), moves.left()) == ([], [])
    finally:
        server.stop()


# --- what a store says -----------------------------------------------------------------------------------------------

ANSWERS = {
    "SlowDown": (503, {"Retry-After": "7"}, True, "cannot answer now"),
    "InternalError": (500, {}, True, "cannot answer now"),
    "RequestTimeTooSkewed": (403, {}, False, "clock"),
    "ExpiredToken": (400, {}, False, "expired"),
    "InvalidAccessKeyId": (403, {}, False, "access key"),
    "AccessDenied": (403, {}, False, "denied"),
    "NoSuchBucket": (404, {}, False, "does not exist"),
    "AuthorizationHeaderMalformed": (400, {"x-amz-bucket-region": "eu-west-9"}, False, "region"),
    "QuotaExceeded": (403, {}, False, "quota"),
    "SomethingNew": (418, {}, False, "refused"),
}


@pytest.fixture
def answering() -> Iterator[Any]:
    """A store that answers every request with one error, and repeats what it should not."""

    class Handler(http.server.BaseHTTPRequestHandler):
        answer = "SlowDown"

        def do_GET(self) -> None:
            status, headers, _, _ = ANSWERS[type(self).answer]
            told = f"<AWSAccessKeyId>AKIA1</AWSAccessKeyId><Message>hunter2 {self.headers['Authorization']}</Message>"
            body = f"<Error><Code>{type(self).answer}</Code>{told}</Error>".encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, Handler
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("code", list(ANSWERS))
def test_an_answer_is_told_by_its_code_and_by_whether_it_may_pass(answering: Any, tmp_path: Path, code: str) -> None:
    server, handler = answering
    handler.answer = code
    options = {
        "root": "lake",
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "access_key": Secret("AKIA1"),
        "secret_key": Secret("hunter2"),
    }
    _, _, transient, words = ANSWERS[code]
    connector = S3(ConnectionConfig("lake", "s3", options, str(tmp_path)))
    from pz_core.contract import ReadSpec, resolved_scan

    source = connector.open_source()
    with pytest.raises(ConnectorError) as caught:
        resolved_scan(source, ReadSpec("t", {"format": "csv"}))
    source.close()
    error = caught.value
    assert (error.transient, error.retry_after) == (transient, 7.0 if code == "SlowDown" else None), str(error)
    assert words in str(error) and error.hint
    report = connector.check()
    assert not report.ok and words in report.message and report.hint
    for text in (str(error), repr(error), report.message, report.hint):
        assert "hunter2" not in text and "AKIA1" not in text


# --- a whole run ------------------------------------------------------------------------------------------------------


def test_pz_retry_finishes_what_a_broken_way_to_the_store_stopped(s3: Any, proxy: Proxy, tmp_path: Path) -> None:
    def pz(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("pz")), *arguments]
        env = {**os.environ, "CI": "true", "LAKE_SECRET": s3.secret, "LAKE_KEY": s3.key}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)

    (tmp_path / "project.yml").write_text("name: ponds\nversion: 0.1.0\n")
    (tmp_path / "connections.yml").write_text(
        f"pond:\n  connector: s3\n  root: {s3.bucket}\n  endpoint: 127.0.0.1:{proxy.port}\n  use_ssl: false\n"
        '  retry: {max_attempts: 1}\n  access_key: "${LAKE_KEY}"\n  secret_key: "${LAKE_SECRET}"\n'
    )
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.sql").write_text(
        "INSERT INTO {{ sink('pond', 'out', strategy: 'append', format: 'parquet') }}\n"
        "select id from {{ source('pond', 'in', format: 'csv') }}\n"
    )
    s3.put("in.csv", "id\n1\n2\n")
    proxy.refuse()
    done = pz("run")
    assert done.returncode == 1 and "PZ0501" in done.stderr, done.stderr
    proxy.heal()
    proxy.cut_request = lambda data, passed: data.startswith(b"PUT")
    done = pz("retry")
    assert done.returncode == 1 and "PZ0501" in done.stderr and s3.listing("out") == [], done.stderr
    proxy.heal()
    done = pz("retry")
    assert done.returncode == 0, done.stderr
    (key,) = s3.listing("out")
    path = tmp_path / "got.parquet"
    path.write_bytes(s3.get(key))
    assert duckdb.execute(f"SELECT id FROM '{path}' ORDER BY 1").fetchall() == [(1,), (2,)]
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and ".pz" in p.parts]
    assert kept and not any(s3.secret.encode() in p.read_bytes() or s3.key.encode() in p.read_bytes() for p in kept)

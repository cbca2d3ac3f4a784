"""Where credentials come from when the connection gives none."""

from __future__ import annotations

import http.server
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pz_s3 import httpfs
from pz_s3.client import Client
from pz_s3.connector import S3
from pz_s3.settings import Settings

from pz_core.contract import ConnectionConfig, Secret, reveal
from pz_core.contract.connector import ConnectorError


@pytest.fixture(autouse=True)
def _no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def bare(s3: Any, **more: object) -> dict[str, object]:
    return {**{k: v for k, v in s3.options().items() if "_key" not in k}, **more}


def reads(moves: Any, s3: Any, **more: object) -> None:
    """In both tiers, with what the environment gives."""
    s3.put("t.csv", "id\n1\n")
    moves.connections["lake"] = S3(ConnectionConfig("lake", "s3", bare(s3, **more), str(moves.project)))  # type: ignore[arg-type]
    for tier in ("native", "universal"):
        assert moves.land(tier, options={"format": "csv"}) == [(1,)]
    moves.drain("SELECT 1 AS id", options={"format": "csv"})
    assert "w/w.csv" in s3.listing()


def test_the_environment_gives_keys(moves: Any, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")  # says where, which is the project's to say
    reads(moves, s3)


def test_a_profile_gives_keys_and_region(moves: Any, s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = f"aws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}\n"
    (tmp_path / "keys").write_text(f"[default]\naws_access_key_id = x\naws_secret_access_key = y\n[lake]\n{keys}")
    (tmp_path / "config").write_text("[profile lake]\nregion = eu-west-9\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    reads(moves, s3, profile="lake")
    made = Settings.of(ConnectionConfig("lake", "s3", {"profile": "lake"}))
    assert Client(made).region() == "eu-west-9"
    monkeypatch.setenv("AWS_PROFILE", "lake")
    keys_of_it = Client(Settings.of(ConnectionConfig("lake", "s3", {}))).keys()
    assert keys_of_it is not None and reveal(keys_of_it.secret) == s3.secret


def test_options_go_before_the_environment(moves: Any, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    reads(moves, s3, access_key=Secret(s3.key), secret_key=Secret(s3.secret))


def test_a_token_of_a_web_identity_is_exchanged_for_keys(
    moves: Any, s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert "Action=AssumeRoleWithWebIdentity" in asked and "the-web-token" in asked
            given = (
                f"<AccessKeyId>{s3.key}</AccessKeyId><SecretAccessKey>{s3.secret}</SecretAccessKey>"
                "<SessionToken>of-the-session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
            )
            body = (
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                f"{given}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        (tmp_path / "token").write_text("the-web-token")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        made = Client(Settings.of(ConnectionConfig("lake", "s3", bare(s3), str(tmp_path))))  # type: ignore[arg-type]
        keys = made.keys()
        assert keys is not None and keys.token is not None
        assert (reveal(keys.secret), reveal(keys.token)) == (s3.secret, "of-the-session")
        (_, secret) = httpfs.setup(made, "s3", s3.bucket)
        assert "SESSION_TOKEN 'of-the-session'" in secret.sql and "of-the-session" not in repr(secret)
    finally:
        server.shutdown()
        server.server_close()


def test_without_credentials_the_ways_to_give_them_are_told(moves: Any, s3: Any, tier: str) -> None:
    moves.connections["lake"] = S3(ConnectionConfig("lake", "s3", bare(s3), str(moves.project)))  # type: ignore[arg-type]
    with pytest.raises(ConnectorError, match="no credentials") as caught:
        moves.land(tier, options={"format": "csv"})
    assert "access_key:" in str(caught.value.hint) and not caught.value.transient
    assert not moves.connections["lake"].check().ok


def test_a_profile_that_is_not_there_is_told(moves: Any, s3: Any) -> None:
    moves.connections["lake"] = S3(
        ConnectionConfig("lake", "s3", bare(s3, profile="nobody"), str(moves.project))  # type: ignore[arg-type]
    )
    with pytest.raises(ConnectorError, match="profile"):
        moves.land("native", options={"format": "csv"})

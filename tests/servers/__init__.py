"""Real servers for the tests, from packages that pip installs: started on free loopback ports, shared, always stopped.

A server belongs to the pytest process that a person or a build started (with xdist: the controller, which outlives its
workers). Beside it runs a guard (:mod:`servers.guard`) that stops the server and removes its folder as soon as that
process is gone, however it went. Workers share one server: starting PostgreSQL costs two seconds of two cores, and what
uses it makes a database of its own anyway.

A server that must not run as root runs as ``nobody`` there, in a folder below the system's temporary one, because
pytest's own is closed to others.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock

GUARD = Path(__file__).with_name("guard.py")
#: Seconds that a server may take to start or to stop.
PATIENCE = 30.0


class Unavailable(Exception):
    """The package with the server is not installed, or has nothing for this machine."""


def owner() -> int:
    """The process whose end is the end of the servers: pytest itself, or the controller of its workers."""
    return os.getppid() if os.environ.get("PYTEST_XDIST_WORKER") else os.getpid()


def session_name() -> str:
    """A text that all processes of one test session have, and no other session has."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"


def free_ports(count: int = 1) -> list[int]:
    """Loopback ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            made = held.enter_context(socket.socket())
            made.bind(("127.0.0.1", 0))
            ports.append(made.getsockname()[1])
        return ports


def package_folder(name: str) -> Path:
    """Folder of an installed package, which is not imported.

    Raises:
        Unavailable: if it is not installed.
    """
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise Unavailable(f"the package {name} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a server runs as; ``None`` is the one that runs the tests."""

    uid: int | None = None
    gid: int | None = None

    def own(self, path: Path) -> None:
        """Give a folder to the user."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def arguments(self) -> dict[str, object]:
        """What :class:`subprocess.Popen` needs to run as the user."""
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}


def plain_account() -> Account:
    """An account that is not root's: our own, or ``nobody``'s when we are root (initdb wants one that has a name)."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return Account()
    import pwd

    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def new_folder(prefix: str, account: Account) -> Path:
    """A folder for a server's data and logs, which :class:`Guarded` removes."""
    made = Path(tempfile.mkdtemp(prefix=f"pz-test-{prefix}-")).resolve()
    account.own(made)
    return made


@dataclass(slots=True)
class Guarded:
    """A server and its guard.

    Args:
        command: what runs the server in the foreground.
        folder: the server's own, removed when it is stopped.
        account: who it runs as.
        env: further variables of its environment.
        stop_signal: what it stops on.
    """

    command: Sequence[str]
    folder: Path
    account: Account = field(default_factory=Account)
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: int = signal.SIGINT
    _guard: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the guard, which starts the server; see :func:`wait_until` for when it answers."""
        order = {
            "command": list(self.command),
            "folder": str(self.folder),
            "account": asdict(self.account),
            "env": dict(self.env),
            "stop_signal": int(self.stop_signal),
            "owner": owner(),
        }
        path = self.folder / "guard.json"
        path.write_text(json.dumps(order), encoding="utf-8")
        self._guard = subprocess.Popen(
            [sys.executable, "-I", str(GUARD), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C at the tests' terminal is not for it
        )

    def server_pid(self) -> int:
        """Process id of the server that runs now."""
        return int((self.folder / "server.pid").read_text(encoding="ascii"))

    def log(self) -> str:
        """What the server has printed, its end."""
        path = self.folder / "server.log"
        return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""

    def kill(self) -> None:
        """Kill the server at once, as a crash would; the guard and the folder stay."""
        pid = self.server_pid()
        os.kill(pid, signal.SIGKILL)
        # The guard reaps it and takes the file away.
        wait_until(lambda: not (self.folder / "server.pid").exists(), "the killed server to be gone")

    def restart(self) -> None:
        """Start the server again after :meth:`kill`, with the same folder and ports."""
        assert self._guard is not None
        self._guard.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """Stop the server, remove its folder, and wait for both."""
        if self._guard is None:
            return
        self._guard.terminate()
        try:
            self._guard.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._guard = None
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class Server:
    """A server that is up. Ends with the tests; :meth:`stop` ends it sooner."""

    guarded: Guarded

    def kill(self) -> None:
        """Kill it at once, as a crash would."""
        self.guarded.kill()

    def restart(self) -> None:
        """Start it again after :meth:`kill`, with what it had kept."""
        self.guarded.restart()
        self.wait()

    def wait(self) -> None:
        """Until it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it and remove its data."""
        self.guarded.stop()


def wait_until(holds: Callable[[], bool], what: str, log: Callable[[], str] = lambda: "") -> None:
    """Ask again and again until something holds.

    Raises:
        TimeoutError: after :data:`PATIENCE` seconds, with the server's log.
    """
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"waited in vain for {what}\n{log()}")
        time.sleep(0.02)


def shared(name: str, folder: Path, start: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Start something once in a test session, whichever worker comes first.

    Args:
        name: of the thing.
        folder: one that all workers of the session see.
        start: starts it and returns what others need to reach it; what it starts must end by itself with the session
            (:class:`Guarded` does).

    Returns:
        What ``start`` returned, here or in the worker that was first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session_name()}-{name}.json"
    with FileLock(f"{path}.lock"):
        if path.exists():
            found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
            return found
        made = start()
        path.write_text(json.dumps(made), encoding="utf-8")
        return made

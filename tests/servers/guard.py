"""Runs beside a server of the tests and ends it: when told to, or when the process that the tests belong to is gone.

Started as a script with the path of a JSON file; see :class:`servers.Guarded`. SIGTERM stops the server, removes the
folder and ends the guard; SIGUSR1 starts the server again after it has died.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_LOOK = 0.05
_PR_SET_PDEATHSIG = 1


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Guard:
    """Keeps one server."""

    def __init__(self, order: dict) -> None:
        self.order = order
        self.folder = Path(order["folder"])
        self.told_to_stop = False
        self.told_to_start = True
        self.server: subprocess.Popen | None = None

    def run(self) -> None:
        """Until told to stop, or until nobody needs the server any more."""
        try:
            while not self.told_to_stop and _alive(self.order["owner"]):
                if self.server is not None and self.server.poll() is not None:
                    self.server = None
                    (self.folder / "server.pid").unlink(missing_ok=True)
                if self.told_to_start and self.server is None:
                    self.told_to_start = False
                    self.start()
                time.sleep(_LOOK)
        finally:
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        account = self.order["account"]
        who = {} if account["uid"] is None else {"user": account["uid"], "group": account["gid"], "extra_groups": []}
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                self.order["command"],
                cwd=self.folder,
                env={**os.environ, **self.order["env"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self._end_with_guard,
                **who,
            )
        (self.folder / "server.pid").write_text(str(self.server.pid), encoding="ascii")

    def _end_with_guard(self) -> None:
        """On Linux the kernel ends the server if the guard itself is killed."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, self.order["stop_signal"])

    def stop(self) -> None:
        if self.server is None or self.server.poll() is not None:
            return
        self.server.send_signal(self.order["stop_signal"])
        try:
            self.server.wait(10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.server.pid, signal.SIGKILL)
            self.server.wait()


def main() -> None:
    """Guard the server that the file describes."""
    guard = Guard(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))

    def stop(*_: object) -> None:
        guard.told_to_stop = True

    def again(*_: object) -> None:
        guard.told_to_start = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, again)
    guard.run()


if __name__ == "__main__":
    main()

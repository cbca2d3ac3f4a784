from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from servers import wait_until
from servers.postgres import Address

TESTS = Path(__file__).resolve().parents[1]


def test_both_versions_answer_and_ask_for_a_password(postgres18: Address, postgres16: Address) -> None:
    import psycopg
    import pytest

    assert postgres18.run("SHOW server_version_num")[0][0].startswith("18")
    assert postgres16.run("SHOW server_version_num")[0][0].startswith("16")
    wrong = Address(postgres18.host, postgres18.port, postgres18.user, "wrong", "postgres")
    with pytest.raises(psycopg.OperationalError):
        wrong.run("SELECT 1")


def test_a_killed_owner_takes_its_server_and_folder_along(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        from servers.postgres import start_postgres
        made = start_postgres(18)
        print(made.guarded.server_pid(), made.guarded.folder, flush=True)
        time.sleep(600)
        """
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    owner = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**env, "PYTHONPATH": str(TESTS)}
    )
    assert owner.stdout is not None
    pid, folder = owner.stdout.readline().split()
    assert _alive(int(pid))
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until(lambda: not _alive(int(pid)), "the server to end")
    wait_until(lambda: not Path(folder).exists(), "its folder to go")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

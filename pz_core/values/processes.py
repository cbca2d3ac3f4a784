"""What the system says of a process: whether it is there, and how it ended."""

from __future__ import annotations

import os
import signal


def is_alive(pid: int) -> bool:
    """Whether a process of this machine is there, also one that is not ours to signal."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def told_end(code: int) -> str:
    """In words how a process ended: ``exit code 3``, ``signal SIGKILL``.

    Args:
        code: of the exit, or a signal's number below zero, as :attr:`subprocess.Popen.returncode` has it.
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"

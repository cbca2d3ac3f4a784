"""What the state backends of the core share: versions of entries, faults of the machine, lost races."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from pz_core.contract.state import StateEntry
from pz_core.errors import PzError
from pz_core.values import Value, canonical_json

#: How long another process may hold the store before it counts as out of reach, in seconds.
LOCK_TIMEOUT_S = 30.0

_SCOPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


def checked_scope(scope: str) -> str:
    """The scope itself, if it is a word that may become a file's name.

    Raises:
        ValueError: if it is not.
    """
    if not _SCOPE.fullmatch(scope):
        raise ValueError(f"{scope!r} is no scope of a state store")
    return scope


def digest(payload: Mapping[str, Value]) -> str:
    """A payload's version where the store keeps no counter: equal payloads are one version, however they got there.

    Raises:
        ValueError: for a payload that JSON cannot hold.
    """
    return hashlib.sha256(canonical_json(payload).encode()).hexdigest()[:32]


def refuse_changed(scope: str, key: str, current: StateEntry | None, expected: str | None) -> None:
    """Compare before setting.

    Raises:
        PzError: PZ0520 if the entry is not at the version that the caller read.
    """
    if (None if current is None else current.version) != expected:
        raise lost_race(scope, key, gone=current is None)


def lost_race(scope: str, key: str, *, gone: bool) -> PzError:
    """PZ0520: somebody else wrote or removed the entry since it was read."""
    what = "removed" if gone else "written"
    return PzError(
        "PZ0520",
        f"{scope} of {key} was {what} by somebody else since it was read; nothing was changed",
        hint="look at it with pz state show, then run again: a run starts from what is stored now",
    )


def machine_fault(error: OSError, path: Path, shown: str) -> PzError:
    """The coded form of what the operating system refused.

    Args:
        error: what it said.
        path: the file that was asked for.
        shown: that file as messages name it.
    """
    if error.errno in _DENIED or isinstance(error, PermissionError):
        return PzError(
            "PZ0531",
            f"access denied to {shown}",
            hint="give this user the right to read and write there",
            cause=error,
        )
    if error.errno in _FULL:
        return PzError(
            "PZ0532",
            f"no space left on the disk for {shown}",
            hint="free some space; pz clean removes staging files of past runs",
            cause=error,
        )
    reason = error.strerror or type(error).__name__
    return PzError(
        "PZ0518",
        f"the state in {shown} cannot be reached: {reason}",
        hint=f"make sure that {path.parent.name} is a folder that this user can write to",
        cause=error,
    )


def busy(shown: str) -> PzError:
    """PZ0518: another process holds the store."""
    return PzError(
        "PZ0518",
        f"the state in {shown} is held by another process for more than {LOCK_TIMEOUT_S:g} seconds",
        hint="wait until the other run has ended, then run again",
    )

"""``.pz/state/audit.jsonl``: what was changed by hand, a line a change. Always a local file, and never cleaned.

Sources: engine.md 6.7, cli-connectors.md 1.19.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.run.runid import now_stamp

FILE = "audit.jsonl"


class Change(Struct, frozen=True):
    """A change of the state that a person made.

    Args:
        at: instant in UTC.
        action: ``set``, ``rollback`` or ``clear``.
        key: ``connection.entity``.
        before: value that was stored, as text; ``None`` for an opaque token.
        after: value that is stored now; ``None`` after ``clear``.
        to_run: the run that a rollback went back to.
        reason: as given by ``--reason``.
        user: who was logged in, if that can be told.
    """

    at: str
    action: str
    key: str
    before: str | None
    after: str | None
    to_run: str | None = None
    reason: str | None = None
    user: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The change as it stands in the file; absent optional parts are left out."""
        made: dict[str, Any] = {
            "at": self.at,
            "action": self.action,
            "key": self.key,
            "before": self.before,
            "after": self.after,
        }
        optional = {"toRun": self.to_run, "reason": self.reason, "user": self.user}
        made.update({name: value for name, value in optional.items() if value is not None})
        return made

    def line(self) -> str:
        """The line of the file, without its end."""
        return json.dumps(self.as_dict(), ensure_ascii=True, separators=(",", ":"))


def made_now(
    action: str, key: str, before: str | None, after: str | None, *, to_run: str | None, reason: str | None
) -> Change:
    """A change of this instant, by whoever is logged in."""
    return Change(now_stamp(), action, key, before, after, to_run, reason, _user())


def path_of(root: Path) -> Path:
    """Where a project keeps the file."""
    return root / ".pz" / "state" / FILE


def append(root: Path, change: Change) -> None:
    """Add a line, and wait until it is on the disk.

    Raises:
        OSError: if it cannot be written.
    """
    path = path_of(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        # A line that a killed process left unfinished must not swallow this one.
        file.seek(0, os.SEEK_END)
        torn = file.tell() > 0 and not _ends_with_line(file)
        file.write((b"\n" if torn else b"") + change.line().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _ends_with_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def changes(root: Path, key: str, limit: int) -> tuple[Change, ...]:
    """The last changes of a key, newest first. A line that cannot be read is passed over.

    Args:
        root: the project.
        key: ``connection.entity``.
        limit: at most so many.
    """
    try:
        lines = path_of(root).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    found: list[Change] = []
    for line in reversed(lines):
        if len(found) == limit:
            break
        change = _read(line)
        if change is not None and change.key == key:
            found.append(change)
    return tuple(found)


def _read(line: str) -> Change | None:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(item, Mapping) or not all(isinstance(item.get(name), str) for name in ("at", "action", "key")):
        return None

    def text(name: str) -> str | None:
        value = item.get(name)
        return value if isinstance(value, str) else None

    return Change(
        item["at"],
        item["action"],
        item["key"],
        text("before"),
        text("after"),
        text("toRun"),
        text("reason"),
        text("user"),
    )


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None  # a container's user need not have a name

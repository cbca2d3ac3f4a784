"""The state backend ``local``: JSON files of the project.

A scope is a file, ``.pz/state/<scope>.json``, made for reading by people and for diffs: sorted keys, two spaces, LF. It
is replaced whole, under a lock of the operating system on a sibling file, so a reader needs no lock and a process that
dies leaves the old file or the new one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout

from pz_core.contract.state import StateEntry
from pz_core.errors import Notice, PzError, Where
from pz_core.state import entries as shared
from pz_core.values import Value
from pz_core.values.atomic import write_whole

VERSION = 1


class LocalState:
    """Keyed entries in the project's own folder.

    An entry's version is a digest of its payload, so an entry that was edited by hand counts as written by somebody
    else. A file that cannot be read counts as empty: a note in :attr:`faults` says so, and the next write replaces it.

    Args:
        settings: none are known.
        project_dir: folder of the project.
    """

    name: ClassVar[str] = "local"

    def __init__(self, settings: Mapping[str, Value], project_dir: str) -> None:
        self._folder = Path(project_dir) / ".pz" / "state"
        self._faults: dict[str, Notice] = {}

    @property
    def faults(self) -> tuple[Notice, ...]:
        """What was found unreadable so far, a note a file."""
        return tuple(self._faults.values())

    def describe(self) -> str:
        """Where the state is."""
        return "local files in .pz/state"

    def read(self, scope: str, key: str) -> StateEntry | None:
        """The entry, or ``None`` if nothing is stored.

        Raises:
            PzError: PZ0531 or PZ0518 if the file cannot be opened, PZ0519 if a newer pz wrote it.
        """
        return self.entries(scope).get(key)

    def entries(self, scope: str) -> Mapping[str, StateEntry]:
        """All entries of a scope by key, sorted.

        Raises:
            PzError: PZ0531 or PZ0518 if the file cannot be opened, PZ0519 if a newer pz wrote it.
        """
        return self._parsed(scope, self._load(scope))

    def write(self, scope: str, key: str, payload: Mapping[str, Value], expected: str | None) -> StateEntry:
        """Store a payload if the entry is still at version ``expected`` (``None``: still absent).

        Raises:
            PzError: PZ0520 if somebody else wrote it; PZ0518 if the lock or the file is out of reach, PZ0519 if a newer
                pz wrote the file, PZ0531 (access denied), PZ0532 (disk full).
            ValueError: if JSON cannot hold the payload.
        """
        made = StateEntry(dict(payload), shared.digest(payload))
        with self._locked(scope):
            section = self._load(scope)
            shared.refuse_changed(scope, key, self._parsed(scope, section).get(key), expected)
            section[key] = made.payload
            self._store(scope, section)
        return made

    def remove(self, scope: str, key: str, expected: str) -> None:
        """Remove an entry that is still at version ``expected``.

        Raises:
            PzError: like :meth:`write`.
        """
        with self._locked(scope):
            section = self._load(scope)
            shared.refuse_changed(scope, key, self._parsed(scope, section).get(key), expected)
            del section[key]
            self._store(scope, section)

    def close(self) -> None:
        """Nothing is held between calls."""

    # --- the file ------------------------------------------------------------------------------------------------

    def _path(self, scope: str) -> Path:
        return self._folder / f"{shared.checked_scope(scope)}.json"

    @staticmethod
    def _shown(path: Path) -> str:
        return f".pz/state/{path.name}"

    @contextmanager
    def _locked(self, scope: str) -> Iterator[None]:
        """Hold the scope's lock; the lock file stays, or two processes could each hold one of the same name."""
        path = self._path(scope)
        lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=shared.LOCK_TIMEOUT_S, thread_local=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise shared.busy(self._shown(path)) from None
        except OSError as error:
            raise shared.machine_fault(error, path, self._shown(path)) from error
        try:
            yield
        finally:
            lock.release(force=True)

    def _load(self, scope: str) -> dict[str, Any]:
        """The scope's section as it stands in the file; empty where there is none or it cannot be understood."""
        path = self._path(scope)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise shared.machine_fault(error, path, self._shown(path)) from error
        try:
            document = json.loads(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return self._unreadable(path, "is no whole JSON file")
        if not isinstance(document, dict):
            return self._unreadable(path, "holds no JSON object")
        version = document.get("version")
        if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
            raise PzError(
                "PZ0519",
                f"{self._shown(path)} was written by a newer pz (version {version}, this one knows {VERSION})",
                hint="use that pz for this project, or move the file away to start with nothing stored",
            )
        section = document.get(_section(scope), {})
        if version != VERSION or isinstance(version, bool) or not isinstance(section, dict):
            return self._unreadable(path, "has another shape than a state file")
        return section

    def _parsed(self, scope: str, section: dict[str, Any]) -> dict[str, StateEntry]:
        found: dict[str, StateEntry] = {}
        for key in sorted(section):
            payload = section[key]
            try:
                if not isinstance(payload, dict):
                    raise ValueError("no mapping")
                found[key] = StateEntry(payload, shared.digest(payload))
            except ValueError:
                self._unreadable(self._path(scope), f"has an entry for {key} that is no entry", key=key)
        return found

    def _unreadable(self, path: Path, what: str, *, key: str = "") -> dict[str, Any]:
        shown = self._shown(path)
        self._faults[f"{shown} {key}"] = Notice(
            "note",
            f"{shown} {what}; it counts as nothing stored, so a full extract follows and the next write replaces it",
            where=Where(shown),
            hint="put the file back from a copy before the next run to go on from where the last one ended",
        )
        return {}

    def _store(self, scope: str, section: dict[str, Any]) -> None:
        path = self._path(scope)
        kept = {key: entry.payload for key, entry in self._parsed(scope, section).items()}
        text = (
            json.dumps({"version": VERSION, _section(scope): kept}, indent=2, ensure_ascii=False, allow_nan=False)
            + "\n"
        )
        try:
            for stale in self._folder.glob(f".{path.name}.*.tmp"):
                stale.unlink(missing_ok=True)  # left by a process that was killed: nobody else writes under this lock
            write_whole(path, text, durable=True)
        except OSError as error:
            raise shared.machine_fault(error, path, self._shown(path)) from error
        self._faults = {k: v for k, v in self._faults.items() if not k.startswith(f"{self._shown(path)} ")}


def _section(scope: str) -> str:
    """Name of the section in a scope's file: ``sync-state`` is ``syncState``."""
    return re.sub(r"-([a-z0-9])", lambda match: match[1].upper(), scope)

"""Feeds of one run: the token that a read goes on from, and the one that it ends at.

Sources: engine.md 5.6, 1.11 and 1.12. A token is text of its connector: it is kept byte for byte, looked into by nobody
else, and shown to nobody. Between two runs it is in the state; what a run's reads ended at is in a file beside its
results, readable by its owner only, so that ``pz retry`` can store what this run could not.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pz_core.contract.state import StateBackend, StateEntry
from pz_core.run.state import SYNC_STATE, put
from pz_core.values.atomic import write_whole
from pz_core.values.discreet import Discreet

#: Beside ``run_results.json``.
FILE = "tokens.json"


class Candidate(Discreet, frozen=True):
    """Where the read of a feed ended; ``None`` if its connector leaves the token as it is."""

    kept: ClassVar[frozenset[str]] = frozenset({"token"})

    token: str | None


def token_digest(token: str | None) -> str | None:
    """A digest to compare tokens by."""
    return None if token is None else hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def stored_token(entry: StateEntry | None) -> str | None:
    """An entry's token; ``None`` if there is none."""
    found = None if entry is None else entry.payload.get("token")
    return found if isinstance(found, str) else None


class Tokens:
    """Tokens of the feeds of one run: read once, before any node, and written once, after all of them.

    Args:
        backend: the open store.
        run_id: of the run.
        full_refresh: read from the beginning, whatever is stored.

    Raises:
        PzError: PZ0518, PZ0519 and faults of the machine, if the store cannot be read.
    """

    def __init__(self, backend: StateBackend, run_id: str, *, full_refresh: bool) -> None:
        self._backend = backend
        self._run_id = run_id
        self._full_refresh = full_refresh
        self._entries: Mapping[str, StateEntry] = backend.entries(SYNC_STATE)

    def start(self, dataset: str) -> str | None:
        """The token that a read of this run goes on from; ``None`` for the beginning."""
        return None if self._full_refresh else stored_token(self._entries.get(dataset))

    def project_of(self, dataset: str) -> str | None:
        """The project that stored a dataset's entry, where the store knows."""
        entry = self._entries.get(dataset)
        return None if entry is None else entry.project

    def unreadable(self, dataset: str) -> bool:
        """Whether an entry is there that holds no token."""
        return dataset in self._entries and stored_token(self._entries[dataset]) is None

    def advance(self, dataset: str, found: Candidate) -> None:
        """Store where a read ended. A full refresh that ended without a token leaves none behind.

        Args:
            dataset: ``connection.entity``.
            found: of the read.

        Raises:
            PzError: PZ0520 if somebody else wrote it since the run began, PZ0518 if the store stayed out of reach, or
                what else the store says.
        """
        entry = self._entries.get(dataset)
        if found.token is None:
            if entry is not None and self._full_refresh:
                put(lambda: self._backend.remove(SYNC_STATE, dataset, entry.version))
            return
        if found.token == stored_token(entry):
            return
        payload = {"token": found.token, "runId": self._run_id}
        version = None if entry is None else entry.version
        put(lambda: self._backend.write(SYNC_STATE, dataset, payload, version))


class TokenFile:
    """The tokens that reads of one run ended at, by node. Safe to use from several threads.

    Args:
        directory: of the run.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._lock = threading.Lock()
        self._tokens: dict[str, str | None] = {}

    def keep(self, node: str, found: Candidate) -> None:
        """Write a token down, durably.

        Raises:
            OSError: if it cannot be written.
        """
        with self._lock:
            self._tokens[node] = found.token
            text = json.dumps({"version": 1, "tokens": self._tokens}) + "\n"
            write_whole(self._path, text, durable=True, mode=0o600)

    def read(self) -> Mapping[str, Candidate]:
        """What an earlier run wrote, by node; nothing if the file is not there or is damaged."""
        try:
            found: Any = json.loads(self._path.read_text(encoding="utf-8"))
            return {
                str(node): Candidate(token)
                for node, token in found["tokens"].items()
                if token is None or isinstance(token, str)
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

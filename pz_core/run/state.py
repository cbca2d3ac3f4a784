"""The project's memory at run time: its backend opened, watermarks read before and advanced after the nodes.

Sources: engine.md 1.11, 5.2, 6.1 and 6.2, DECISIONS 4 and 10.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.compile.cursors import canonical_cursor, later
from pz_core.contract.secrets import Secret
from pz_core.contract.state import StateBackend, StateEntry
from pz_core.errors import Notice, PzError, withhold
from pz_core.plan.connections import config_of
from pz_core.plugins import Registry
from pz_core.project.model import StateConfig
from pz_core.project.state_config import CREDENTIALS, SERVERS

#: The section of the store that watermarks are in.
WATERMARKS = "watermarks"
#: The section of the store that tokens of feeds and change captures are in.
SYNC_STATE = "sync-state"
#: How often a store that cannot be reached is asked, and how long to wait between, in seconds.
STORE_ATTEMPTS = 3
STORE_PAUSE = 0.1


def open_state(config: StateConfig, root: Path, registry: Registry) -> StateBackend:
    """Open the backend of a project; most touch their store only when they are asked something.

    Args:
        config: ``state:`` of the project.
        root: folder of the project.
        registry: where plugins are found.

    Raises:
        PzError: PZ0125 if no installed plugin offers the backend, naming the package that would, or if nothing names
            its server; PZ0305 and others if the connector of its connection cannot be used; PZ0518, PZ0519.
    """
    if not registry.has("state", config.backend):
        missing = registry.missing("state", config.backend)
        raise PzError(
            "PZ0125", f"state.backend {config.backend} cannot be opened: {missing.message}", hint=missing.hint
        )
    made: StateBackend = registry.load("state", config.backend)(_settings(config, root, registry), str(root))
    return made


def _settings(config: StateConfig, root: Path, registry: Registry) -> Mapping[str, Any]:
    """What a backend is made with: the keys of ``state:``, with the connection itself in the place of its name."""
    made: dict[str, Any] = dict(config.settings)
    if config.connection is not None:
        made["connection"] = config_of(config.connection, root, registry)
    elif config.backend in SERVERS or "connection" in registry.registration("state", config.backend).keys:
        text = os.environ.get(CREDENTIALS[0])
        if text:
            withhold({text: f"${{{CREDENTIALS[0]}}}"})
            made["connection_string"] = Secret(text)
    else:
        return made
    made["project"] = config.project
    return made


def state_notices(backend: StateBackend) -> tuple[Notice, ...]:
    """What a backend found unreadable so far, if it says such things."""
    return tuple(getattr(backend, "faults", ()))


class Stored(Struct, frozen=True):
    """A watermark as the store has it, its value in canonical text."""

    cursor: str
    type: str
    value: str


def put(write: Callable[[], object]) -> None:
    """Change the store; one that cannot be reached is asked again a little later, any other fault is final.

    Raises:
        PzError: what the store says, PZ0518 after the last attempt.
    """
    for attempt in range(1, STORE_ATTEMPTS + 1):
        try:
            write()
            return
        except PzError as error:
            if error.code != "PZ0518" or attempt == STORE_ATTEMPTS:
                raise
            time.sleep(STORE_PAUSE * attempt)


def family(kind: str) -> str:
    """Types that one cursor may move between count as one."""
    return "bigint" if kind == "int" else kind


def stored_watermark(entry: StateEntry) -> Stored | None:
    """An entry's watermark; ``None`` if the entry holds none."""
    cursor, kind, value = (entry.payload.get(name) for name in ("cursor", "type", "value"))
    if not (isinstance(cursor, str) and isinstance(kind, str) and isinstance(value, str)):
        return None
    canonical = canonical_cursor(kind, value)
    return None if canonical is None else Stored(cursor, kind, canonical)


class Watermarks:
    """Watermarks of the datasets of one run: read once, before any node, and written once, after all of them.

    Args:
        backend: the open store.
        run_id: of the run.

    Raises:
        PzError: PZ0518, PZ0519 and faults of the machine, if the store cannot be read.
    """

    def __init__(self, backend: StateBackend, run_id: str) -> None:
        self._backend = backend
        self._run_id = run_id
        self._entries: Mapping[str, StateEntry] = backend.entries(WATERMARKS)

    def of(self, dataset: str) -> Stored | None:
        """What was stored of a dataset (``connection.entity``) when the run began."""
        entry = self._entries.get(dataset)
        return None if entry is None else stored_watermark(entry)

    def project_of(self, dataset: str) -> str | None:
        """The project that stored a dataset's entry, where the store knows."""
        entry = self._entries.get(dataset)
        return None if entry is None else entry.project

    def unreadable(self, dataset: str) -> bool:
        """Whether an entry is there that holds no watermark."""
        return dataset in self._entries and self.of(dataset) is None

    def advance(self, dataset: str, found: Mapping[str, Any], *, may_go_back: bool) -> None:
        """Store a candidate if it lies above what is stored.

        Args:
            dataset: ``connection.entity``.
            found: ``cursor``, ``type`` and ``value`` of the candidate.
            may_go_back: store it whatever is stored (``--full-refresh``).

        Raises:
            PzError: PZ0520 if somebody else wrote it since the run began, PZ0518 if the store stayed out of reach, or
                what else the store says.
        """
        before = self.of(dataset)
        if before is not None:
            same = (before.cursor, before.type, before.value) == tuple(found[k] for k in ("cursor", "type", "value"))
            if same or not (may_go_back or later(str(found["type"]), str(found["value"]), before.value)):
                return
        entry = self._entries.get(dataset)
        payload = {**{name: found[name] for name in ("cursor", "type", "value")}, "runId": self._run_id}
        put(lambda: self._backend.write(WATERMARKS, dataset, payload, None if entry is None else entry.version))

    def close(self) -> None:
        """Close the store."""
        self._backend.close()

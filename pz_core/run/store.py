"""Runs in the state's store (``state.artifacts``): what is written there as a run goes on, and who may look at it.

Sources: engine.md 1.11, 6.3, 6.4 and 6.6. The project's own ``.pz/runs`` is written first and decides: the store has
a copy for other machines, which a later command makes good where it could not be written.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from pz_core.contract.events import Event
from pz_core.contract.state import KeepsRuns, RunStore, StateBackend
from pz_core.errors import Notice, PzError, PzErrors
from pz_core.plugins import Registry
from pz_core.project.model import StateConfig
from pz_core.project.state_config import PREFIX
from pz_core.project.state_only import load_state_config
from pz_core.run.history import runs_dir
from pz_core.run.lock import is_live
from pz_core.run.results import FILE, RUNNING
from pz_core.run.state import open_state

#: Events that wait for the store before further ones are dropped.
EVENTS_WAITING = 10_000
#: Events that are written at once.
EVENTS_AT_ONCE = 500
#: Failed writes in a row after which no more events are written.
EVENT_FAILURES = 3
#: How long events wait for company, and the end of a run for the last of them, in seconds.
EVENT_PAUSE, EVENT_DRAIN = 0.2, 5.0
#: How long after a failed write the next one is tried, in seconds.
FAILURE_PAUSE = 1.0


def runs_of(backend: StateBackend, config: StateConfig) -> RunStore | None:
    """Where a backend holds runs, if the project asks for it.

    Raises:
        PzError: PZ0124 if it asks and the backend cannot.
    """
    if not config.artifacts:
        return None
    if isinstance(backend, KeepsRuns):
        return backend.run_store()
    raise PzError(
        "PZ0124",
        f"state.artifacts is true, and backend {config.backend} holds no runs",
        hint="set artifacts: false under state:, or choose another backend",
    )


# --- a run that goes on ----------------------------------------------------------------------------------------------


class RunRecorder:
    """Copies one run into the store as it goes on. A thread of its own writes, so that no node waits for it.

    Args:
        store: of the project.
        run_id: of the run.
    """

    def __init__(self, store: RunStore, run_id: str) -> None:
        self.store = store
        self._run_id = run_id
        self._nodes: list[Mapping[str, Any]] = []
        self._written = 0
        self._events: deque[Mapping[str, Any]] = deque()
        self._event_number = 0
        self._event_failures = 0
        self._dropped = 0
        self._draining = False
        self._events_over = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, document: Mapping[str, Any]) -> None:
        """Store the run as one that goes on.

        Raises:
            PzError: what the store says.
        """
        self.store.begin(document)
        self._thread = threading.Thread(target=self._work, name="pz-run-store", daemon=True)
        self._thread.start()

    def add(self, node: Mapping[str, Any]) -> None:
        """Take a node that has ended; it is stored soon, and at the end at the latest."""
        with self._changed:
            self._nodes.append(node)
            self._changed.notify_all()

    def event(self, event: Mapping[str, Any]) -> None:
        """Take an event, or drop it: the store never holds up the stream."""
        with self._changed:
            if self._events_over or len(self._events) >= EVENTS_WAITING:
                self._dropped += 1
                return
            self._events.append(event)
            self._changed.notify_all()

    def drain_events(self, seconds: float = EVENT_DRAIN) -> int:
        """Wait for the events that are left; returns how many were never stored. Later ones are dropped."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._events or self._events_over, seconds)
            self._give_up_events()
            return self._dropped

    def end(self, document: Mapping[str, Any]) -> tuple[Notice, ...]:
        """Store the whole run as it ended; what goes wrong is told, and changes nothing about the run.

        Args:
            document: of the run, without its nodes.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(EVENT_DRAIN)
        try:
            self.store.end({**document, "nodes": list(self._nodes)})
        except PzError as error:
            what = (
                f"run {self._run_id} is recorded in .pz/runs here, and not in {self.store.describe()}: {error.message}"
            )
            return (Notice("warning", what, error.code, hint="the next pz run or pz retry here stores it"),)
        return ()

    # --- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        failed = False
        while True:
            with self._changed:
                if failed:
                    self._changed.wait_for(lambda: self._closed, FAILURE_PAUSE)
                self._changed.wait_for(lambda: self._urgent() or bool(self._events))
                self._changed.wait_for(self._urgent, EVENT_PAUSE)
                if self._closed:
                    return
                first, nodes = self._written, self._nodes[self._written :]
                events = [self._events[i] for i in range(min(EVENTS_AT_ONCE, len(self._events)))]
            failed = bool(nodes) and not self._stored_nodes(first, nodes)
            failed |= bool(events) and not self._stored_events(events)

    def _urgent(self) -> bool:
        full = len(self._events) >= EVENTS_AT_ONCE
        return self._closed or self._written < len(self._nodes) or full or (self._draining and bool(self._events))

    def _stored_nodes(self, first: int, nodes: list[Mapping[str, Any]]) -> bool:
        try:
            self.store.add(self._run_id, first, nodes)
        except Exception:  # noqa: BLE001 - they are stored at the end, which tells what is wrong
            return False
        with self._changed:
            self._written += len(nodes)
        return True

    def _stored_events(self, events: list[Mapping[str, Any]]) -> bool:
        try:
            self.store.add_events(self._run_id, self._event_number, events)
        except Exception:  # noqa: BLE001 - events may be lost; how many is told
            with self._changed:
                self._event_failures += 1
                if self._event_failures >= EVENT_FAILURES:
                    self._give_up_events()
            return False
        with self._changed:
            self._event_failures = 0
            self._event_number += len(events)
            for _ in range(min(len(events), len(self._events))):
                self._events.popleft()
            self._changed.notify_all()
        return True

    def _give_up_events(self) -> None:
        self._dropped += len(self._events)
        self._events.clear()
        self._events_over = True
        self._changed.notify_all()


class StoredEvents:
    """The observer that hands events to a recorder."""

    name: ClassVar[str] = "state store"

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    def on_event(self, event: Event) -> None:
        """Take one event."""
        self._recorder.event(event.as_dict())

    def close(self) -> None:
        """The stream has ended; the end of the run waits for what is left."""


# --- looking at the store --------------------------------------------------------------------------------------------


class StoredHistory(Struct, frozen=True):
    """Where verbs that look at past runs find them.

    Args:
        store: beside ``.pz/runs``, ``None`` if the project keeps runs nowhere else.
        notices: why the store could not be looked for.
    """

    store: RunStore | None = None
    notices: tuple[Notice, ...] = ()


@contextmanager
def stored_history(root: Path, environ: Mapping[str, str] | None = None) -> Iterator[StoredHistory]:
    """Open the store of a project's runs, if it has one. The project need not load.

    Args:
        root: the project's folder.
        environ: environment variables; the process's own by default.

    Raises:
        PzError, PzErrors: PZ0124, PZ0125 and faults of the one connection; PZ0518, PZ0519 once the store is used.
    """
    if not _may_have_store(root, os.environ if environ is None else environ):
        yield StoredHistory()
        return
    try:
        config, _ = load_state_config(root, environ)
    except PzErrors as errors:
        if any(error.code != "PZ0101" for error in errors):
            raise
        note = "project.yml cannot be read, so only runs that are recorded in .pz/runs here are looked at"
        yield StoredHistory(notices=(Notice("note", note),))
        return
    if not config.artifacts:
        yield StoredHistory()
        return
    backend = open_state(config, root, Registry())
    try:
        yield StoredHistory(runs_of(backend, config))
    finally:
        backend.close()


def _may_have_store(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether it is worth the while to read ``state:``: most projects say nothing of it, and answer at once."""
    if environ.get(f"{PREFIX}BACKEND"):
        return True
    try:
        return b"state" in (root / "project.yml").read_bytes()
    except OSError:
        return False


def store_what_is_missing(root: Path, store: RunStore) -> None:
    """Store how runs of this machine ended that the store does not know of, because it was out of reach then.

    Raises:
        PzError: what the store says.
    """
    for head in store.heads():
        directory = runs_dir(root) / head.run_id
        if head.status != RUNNING or head.live or not (directory / FILE).is_file() or is_live(directory):
            continue
        try:
            document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict) and document.get("status") not in (None, RUNNING):
            store.end(document)

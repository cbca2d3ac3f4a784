"""The end of a run: what is published, swept, stored and recorded once all nodes have ended, in an order that matters.

Source: engine.md 1.11.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from pz_core.compile.model import Graph
from pz_core.contract.events import RetentionSwept, RunCompleted
from pz_core.errors import Notice, PzError
from pz_core.run import advance as advancing
from pz_core.run.bus import EventBus
from pz_core.run.cancel import monotonic_ms
from pz_core.run.faults import unexpected
from pz_core.run.memory import RunMemory
from pz_core.run.results import NodeResult, ResultsFile
from pz_core.run.retention import Sweep, retain
from pz_core.run.runid import now_stamp
from pz_core.run.scheduler import Outcome
from pz_core.run.store import RunRecorder

EXIT_CODES = {"success": 0, "completed_with_failures": 1, "fatal": 3}


class RunResult(Struct, frozen=True):
    """How a run ended.

    Args:
        status: ``success``, ``completed_with_failures`` or ``fatal``.
        exit_code: 0, 1 or 3.
        nodes: one result for every node of the run, in the order in which they ended.
        notices: warnings and notes, which change no exit code.
        errors: one for every failed node, and what else went wrong.
        swept: number of runs whose staging was removed, bytes freed, failures; ``None`` if there was nothing to do.
        duration_ms: of the whole run.
        settled: datasets (``connection.entity``) whose watermark is where this run's read of them ended.
        stored_in: where the run is recorded beside its file, ``None`` if nowhere.
    """

    run_id: str
    status: str
    exit_code: int
    nodes: tuple[NodeResult, ...]
    results_path: Path
    notices: tuple[Notice, ...] = ()
    errors: tuple[PzError, ...] = ()
    swept: tuple[int, int, int] | None = None
    duration_ms: int = 0
    settled: frozenset[str] = frozenset()
    stored_in: str | None = None


class Ending(Struct, kw_only=True):
    """Ends one run.

    Args:
        run_id: of the run.
        graph: of the project.
        bus: where events go; it is closed on the way.
        results: the file of results; its last snapshot is written here.
        notices, errors: so far; more are added.
        memory: the open state, ``None`` where nothing is to move.
        full_refresh: whether the run read everything as if nothing were stored.
        temp: working folder of the run, removed here.
        temp_base: the folder that such folders are in.
        began: monotonic milliseconds.
        recorder: copies the run into the state's store, ``None`` where it is recorded in its file only.
    """

    run_id: str
    graph: Graph
    bus: EventBus
    results: ResultsFile
    notices: list[Notice]
    errors: list[PzError]
    memory: RunMemory | None
    full_refresh: bool
    temp: Path
    temp_base: Path
    began: int
    recorder: RunRecorder | None = None
    _settled: frozenset[str] = field(default=frozenset())

    def finish(self, outcome: Outcome, status: str) -> RunResult:
        """End the run. The order decides what a kill leaves behind, so every step has its number.

        A file that says anything but ``running`` proves that all steps before the last were done.
        """
        counts = [result.status for result in outcome.results]
        self.bus.publish(
            RunCompleted(
                at=now_stamp(),
                run_id=self.run_id,
                status=status,
                succeeded=counts.count("success"),
                failed=counts.count("failed"),
                skipped=counts.count("skipped"),
                duration_ms=monotonic_ms() - self.began,
            )
        )
        # 1. All results are durable while the status still says running.
        status = self._durable(self.results.flush, status)
        # 2. Retention; what it cannot do is a note.
        swept = self._sweep()
        # 3. The stream of events ends; observers get five seconds.
        self.notices.extend(self.bus.close())
        # 4. Dropped events of a remote store. 5. The summary: the caller's, from what is returned.
        status = self._tell_dropped(status)
        # 6. Watermarks advance, dataset by dataset. 7. So do the tokens of feeds.
        status = self._advance(outcome, status)
        # 8. The terminal snapshot.
        finished = now_stamp()
        status = self._durable(lambda: self.results.finish(status, finished), status)
        # 9. The copy of it in the state's store.
        if self.recorder is not None:
            self.notices.extend(self.recorder.end(self.results.document(status, finished)))
        return RunResult(
            self.run_id,
            status,
            EXIT_CODES[status],
            tuple(outcome.results),
            self.results.path,
            tuple(self.notices),
            tuple(self.errors),
            None if swept.nothing else (len(swept.runs), swept.bytes_freed, len(swept.failed)),
            monotonic_ms() - self.began,
            self._settled,
            None if self.recorder is None else self.recorder.store.describe(),
        )

    def _tell_dropped(self, status: str) -> str:
        """Wait for events that are still to be stored, and tell and record how many never were."""
        dropped = 0 if self.recorder is None else self.recorder.drain_events()
        if not dropped:
            return status
        self.notices.append(
            Notice("note", f"{dropped} events were not stored: the state's store did not take them in time")
        )
        self.results.remark(eventsDropped=dropped)
        return self._durable(self.results.snapshot, status)

    def _advance(self, outcome: Outcome, status: str) -> str:
        """Move watermarks and tokens of all datasets whose outputs have committed, however the run ended."""
        if self.memory is None:
            return status
        moved = [advancing.advance(self.graph, outcome.results, self.memory.watermarks, full_refresh=self.full_refresh)]
        if self.memory.tokens is not None:
            moved.append(advancing.advance_tokens(self.graph, outcome.results, self.memory.tokens))
        self._settled = frozenset().union(*(done.settled for done in moved))
        self.notices.extend(notice for done in moved for notice in done.notices)
        faults = [fault for done in moved for fault in done.faults]
        error = advancing.not_stored(faults)
        if error is None:
            return status
        self.results.remark(notStored=[dataset for dataset, _ in faults])
        self.errors.append(error)
        return "completed_with_failures" if status == "success" else status

    def _durable(self, write: Any, status: str) -> str:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - without its record a run cannot be called a success
            fault = unexpected(error)
            if all(fault.message != known.message for known in self.errors):
                self.errors.append(fault)
            return "fatal"
        return status

    def _sweep(self) -> Sweep:
        shutil.rmtree(self.temp, ignore_errors=True)
        try:
            project, store = self.graph.project, None if self.recorder is None else self.recorder.store
            swept = retain(project.root, project.retention, self.run_id, (self.temp_base,), store)
        except PzError as error:
            self.notices.append(Notice("note", f"retention could not look at old runs: {error.message}"))
            return Sweep()
        except OSError as error:
            self.notices.append(Notice("note", f"retention could not look at old runs: {type(error).__name__}"))
            return Sweep()
        if swept.failed:
            self.notices.append(Notice("note", f"retention could not remove {', '.join(swept.failed)}"))
        if not swept.nothing:
            self.bus.publish(
                RetentionSwept(
                    at=now_stamp(),
                    run_id=self.run_id,
                    runs_swept=len(swept.runs),
                    bytes_freed=swept.bytes_freed,
                    failures=len(swept.failed),
                )
            )
        return swept

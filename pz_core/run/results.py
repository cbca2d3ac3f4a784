"""``run_results.json``: what became of every node, rewritten whole as nodes end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct, field

from pz_core.errors import PzError
from pz_core.values.atomic import write_whole
from pz_core.values.discreet import Discreet

if TYPE_CHECKING:
    from pz_core.run.feeds import Candidate

NodeStatus = Literal["success", "failed", "skipped"]
RUNNING = "running"
FILE = "run_results.json"


class NodeResult(Struct, frozen=True):
    """How a node ended.

    Args:
        rows: what it produced; violations for a check.
        accounting: of what was ``read``, ``staged``, ``written`` and ``rejected``, the parts that apply.
        timings: milliseconds that each side of a universal edge waited.
        watermark: ``cursor``, ``type`` and ``value`` of an incremental read's candidate.
        observed_schema: columns that landed, where drift is looked for.
        caught_up: of a read that has an end: whether it has come there.
        read: of a read: what it left out and where it started, ``None`` for all of the dataset.
        ancestry: of an output that is carried forward: digest of all that it depends on.
        partitions: ``total``, ``completed``, ``reused`` and ``resumed`` of a read in partitions.
        delivery: of a write that is not all or nothing: what it left in the target, or went on after.
        feed: of a feed: where the read ended; it is no part of the file.
        choices: what the plan called decided at run, by topic, as it was decided.
        along: results of nodes that ended with this one, since it moved their rows too; in the file each is its own.
        cdc: of a change capture: ``inserts``, ``updates``, ``deletes`` as they came, and the last one's ``position``.
    """

    id: str
    kind: str
    name: str
    status: NodeStatus
    rows: int = 0
    duration_ms: int = 0
    error: PzError | None = None
    accounting: Mapping[str, int] | None = None
    timings: Mapping[str, int] | None = None
    provenance: str | None = None
    watermark: Mapping[str, Any] | None = None
    caught_up: bool | None = None
    observed_schema: Mapping[str, Any] | None = None
    read: Mapping[str, Any] | None = None
    ancestry: str | None = None
    choices: Mapping[str, str] | None = None
    partitions: Mapping[str, int] | None = None
    delivery: Mapping[str, Any] | None = None
    feed: Candidate | None = None
    cdc: Mapping[str, Any] | None = None
    along: tuple[NodeResult, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The node's object in the file; optional fields that are absent are left out."""
        made: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "status": self.status,
            "rows": self.rows,
            "durationMs": self.duration_ms,
            "error": None if self.error is None else {"code": self.error.code, "message": self.error.message},
        }
        optional = {
            "provenance": self.provenance,
            "timings": self.timings,
            "partitions": self.partitions,
            "delivery": self.delivery,
            "watermark": self.watermark,
            "caughtUp": self.caught_up,
            "observed_schema": self.observed_schema,
            "accounting": self.accounting,
            "read": self.read,
            "ancestry": self.ancestry,
            "choices": self.choices,
            "cdc": self.cdc,
        }
        made.update({name: dict(v) if isinstance(v, Mapping) else v for name, v in optional.items() if v is not None})
        return made


class ResultsFile:
    """Writes the file of one run. A thread of its own does, so that no node waits for the disk.

    Whenever nodes ended since the last write, all of them are written together; :meth:`flush` waits until none is left.

    Args:
        path: the file.
        run_id: of the run.
        started_at: ISO text with milliseconds.
    """

    def __init__(self, path: Path, run_id: str, started_at: str) -> None:
        self.path = path
        self._head: dict[str, Any] = {"version": 1, "runId": run_id}
        self._remarks: dict[str, Any] = {}
        self._started_at = started_at
        self._nodes: list[str] = []
        self._written = -1
        self._failure: BaseException | None = None
        self._closed = False
        self._changed = Condition()
        self._thread: Thread | None = None

    def remark(self, **fields: Any) -> None:
        """Add fields of the run itself to every later snapshot; they come before ``nodes``."""
        self._remarks = {**self._remarks, **fields}

    def document(self, status: str, finished_at: str | None = None) -> dict[str, Any]:
        """What the file says of the run itself, without ``nodes``."""
        made = {**self._head, "status": status, "startedAt": self._started_at}
        if finished_at is not None:
            made["finishedAt"] = finished_at
        return {**made, **self._remarks}

    def snapshot(self) -> None:
        """Write what is known so far once more, after :meth:`flush` and with the remarks that came since.

        Raises:
            OSError: if it cannot be written.
        """
        self._write(RUNNING, tuple(self._nodes), None)

    def start(self) -> None:
        """Write the first snapshot, without nodes.

        Raises:
            OSError: if it cannot be written.
        """
        self._write(RUNNING, (), None)
        self._written = 0
        self._thread = Thread(target=self._work, name="pz-results", daemon=True)
        self._thread.start()

    def add(self, result: NodeResult) -> None:
        """Take the result of a node; it is on the disk soon, and surely after :meth:`flush`."""
        text = _compact(result.as_dict())
        with self._changed:
            self._nodes.append(text)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all results so far are durable.

        Raises:
            OSError: if they could not be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._written >= len(self._nodes))
            if self._failure is not None:
                raise self._failure

    def finish(self, status: str, finished_at: str) -> None:
        """Write the terminal snapshot; nothing is written after it.

        Raises:
            OSError: if it cannot be written; the file then still says ``running``.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._write(status, tuple(self._nodes), finished_at)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._written < len(self._nodes))
                if self._closed:
                    return
                nodes = tuple(self._nodes)
            try:
                self._write(RUNNING, nodes, None)
            except Exception as error:  # noqa: BLE001 - told by flush; a thread that died silently would hang the run
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._written = len(nodes)
                self._changed.notify_all()

    def _write(self, status: str, nodes: tuple[str, ...], finished_at: str | None) -> None:
        head = self.document(status, finished_at)
        text = f'{_compact(head)[:-1]},"nodes":[{",".join(nodes)}]}}\n'
        write_whole(self.path, text, durable=True)


def _compact(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a file's name can hold what is no Unicode
        return json.dumps(value, separators=(",", ":"))
    return text


class NodeRecord(Discreet, frozen=True):
    """A node as an earlier run recorded it; ``raw`` holds every field of the file."""

    kept: ClassVar[frozenset[str]] = frozenset({"raw"})

    id: str
    kind: str
    name: str
    status: str
    rows: int
    duration_ms: int
    error_code: str | None = None
    error_message: str | None = None
    provenance: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


class RunRecord(Struct, frozen=True):
    """An earlier run as its file tells it.

    Args:
        full_refresh: whether it read everything as if nothing had been stored.
        not_stored: datasets whose rows it delivered and whose watermark it could not store (PZ0527).
        advances: whether it was to move watermarks.
        connections: name -> fingerprint of how each connection that it used was set up; ``None`` in an older file.
        vars_hash: digest of the values that ``vars:`` had.
        given_vars: names of variables whose value came from outside the project's files.
        retry_of: id of the run that it was a retry of.
        stored_in: identity of the store where it was recorded, too.
    """

    run_id: str
    status: str
    started_at: str
    finished_at: str | None
    nodes: tuple[NodeRecord, ...]
    full_refresh: bool = False
    not_stored: tuple[str, ...] = ()
    advances: bool = True
    connections: Mapping[str, str] | None = None
    vars_hash: str | None = None
    given_vars: tuple[str, ...] = ()
    retry_of: str | None = None
    stored_in: str | None = None


def read_results(path: Path) -> RunRecord:
    """Read the file of an earlier run.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no results file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("not the results of a run") from None
    return record_of(found)


def record_of(found: Any) -> RunRecord:
    """A run out of what its file holds, wherever that was kept.

    Raises:
        ValueError: if it is no results file.
    """
    try:
        nodes = tuple(_node(item) for item in found["nodes"])
        return RunRecord(
            str(found["runId"]),
            str(found["status"]),
            str(found["startedAt"]),
            _text(found.get("finishedAt")),
            nodes,
            found.get("fullRefresh") is True,
            tuple(str(dataset) for dataset in found.get("notStored") or ()),
            found.get("advances") is not False,
            _texts(found.get("connections")),
            _text(found.get("varsHash")),
            tuple(str(name) for name in found.get("givenVars") or ()),
            _text(found.get("retryOf")),
            _text(found.get("store")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no results of a run: {type(error).__name__}") from error


def _node(item: Mapping[str, Any]) -> NodeRecord:
    error = item.get("error") or {}
    return NodeRecord(
        id=str(item["id"]),
        kind=str(item["kind"]),
        name=str(item["name"]),
        status=str(item["status"]),
        rows=int(item.get("rows") or 0),
        duration_ms=int(item.get("durationMs") or 0),
        error_code=_text(error.get("code")),
        error_message=_text(error.get("message")),
        provenance=_text(item.get("provenance")),
        raw=item,
    )


def _texts(value: object) -> Mapping[str, str] | None:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)

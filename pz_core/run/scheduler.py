"""Decides which node runs when: as soon as its parents are done and there is room for it.

The dispatcher runs in the caller's thread and is the only one that changes its own records; every started node has a
thread. Waking it, from a node's thread or from a cancellation, is putting a word into one queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread

from msgspec import Struct, field

from pz_core.errors import PzError, Where
from pz_core.run.cancel import CancelToken, monotonic_ms
from pz_core.run.faults import unexpected
from pz_core.run.results import NodeResult

#: How long a node that was told to stop may take before it is given up, in milliseconds.
GRACE_MS = 30_000


class Work(Struct, frozen=True):
    """A node to run.

    Args:
        rank: of its kind; smaller goes first among nodes that become ready together.
        parents: ids that must succeed first, all of them in the same run.
        connection: whose permit it takes, if it uses one.
        beside: another connection whose permit it takes: the one that its rows pass straight into.
        along: ids of nodes that may end with it, since it moves their rows too. None of them is skipped while it runs.
    """

    id: str
    name: str
    kind: str
    rank: int
    parents: tuple[str, ...] = ()
    connection: str | None = None
    beside: str | None = None
    along: tuple[str, ...] = ()

    @property
    def permits(self) -> frozenset[str]:
        """The connections whose permits it takes, one of each."""
        return frozenset(name for name in (self.connection, self.beside) if name is not None)


class Running(Struct):
    """A started node: its token, and the clock of its present attempt."""

    work: Work
    token: CancelToken
    wake: Callable[[], None]
    timeout_ms: int | None
    deadline: int | None = None
    timed_out: bool = False
    told_at: int | None = None

    def attempt_begins(self) -> None:
        """Start the clock of ``engine.node_timeout``."""
        if self.timeout_ms is not None:
            self.deadline = monotonic_ms() + self.timeout_ms
            self.wake()

    def attempt_ends(self) -> None:
        """Stop it: waiting between attempts does not count."""
        self.deadline = None


class Outcome(Struct):
    """How the dispatching went.

    Args:
        results: one for every node, in the order in which they ended.
        interrupted: whether a cancellation from outside kept any node from its end.
        failed_before: whether a node had failed by then.
        abandoned: whether a node was given up while its thread still runs.
    """

    results: list[NodeResult] = field(default_factory=list)
    interrupted: bool = False
    failed_before: bool = False
    abandoned: bool = False


class Scheduler:
    """Runs nodes, at most so many at once.

    Args:
        works: the nodes, in any order; parents that are not among them count as done.
        threads: how many may run at once.
        caps: how many nodes of a connection may run at once.
        run: does the work of a node, in a thread; returns its result and raises nothing.
        started: told in the dispatcher's thread just before a node starts.
        ended: told in the dispatcher's thread of every result.
        unrun: asked for the result of a node that will not run, where that is not simply ``skipped``.
        cancel: the run's token; the scheduler cancels it on the first failure if ``fail_fast``.
        fail_fast: whether one failure stops everything.
        node_timeout_ms: limit of one attempt.
        grace_ms: how long a node may take to stop.

    Raises:
        ValueError: if ``threads`` is below 1.
    """

    def __init__(
        self,
        works: Iterable[Work],
        *,
        threads: int,
        run: Callable[[Running], NodeResult],
        cancel: CancelToken,
        caps: Mapping[str, int] | None = None,
        started: Callable[[Work], None] = lambda work: None,
        ended: Callable[[NodeResult], None] = lambda result: None,
        unrun: Callable[[Work], NodeResult | None] = lambda work: None,
        fail_fast: bool = False,
        node_timeout_ms: int | None = None,
        grace_ms: int = GRACE_MS,
    ) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        self._works = {work.id: work for work in works}
        self._run, self._started, self._ended, self._unrun = run, started, ended, unrun
        self._carried: set[str] = set()
        self._cancel, self._fail_fast = cancel, fail_fast
        self._timeout_ms, self._grace_ms = node_timeout_ms, grace_ms
        self._room = threads
        self._permits = dict(caps or {})
        self._unfinished = {id: sum(p in self._works for p in w.parents) for id, w in self._works.items()}
        self._children: dict[str, list[str]] = {}
        for work in self._works.values():
            for parent in work.parents:
                self._children.setdefault(parent, []).append(work.id)
        self._turn = 0
        self._ready: list[tuple[int, int, str, str]] = []
        self._running: dict[str, Running] = {}
        self._done: set[str] = set()
        self._inbox: SimpleQueue[tuple[Running, NodeResult] | None] = SimpleQueue()
        self._stopping = False
        self._outcome = Outcome()

    def dispatch(self) -> Outcome:
        """Run everything; returns when every node has exactly one result."""
        forget = self._cancel.on_cancel(lambda: self._inbox.put(None))
        try:
            self._make_ready(id for id, count in self._unfinished.items() if count == 0)
            while len(self._done) < len(self._works):
                if self._cancel.cancelled and not self._stopping:
                    self._stop(from_outside=True)
                if self._stopping:
                    self._skip_waiting()
                else:
                    self._start_ready()
                if len(self._done) < len(self._works):
                    self._await_word()
        finally:
            forget()
        return self._outcome

    def surrender(self, grace_ms: int = 5_000) -> Outcome:
        """After :meth:`dispatch` raised: stop what runs, keep what ended, skip the rest; every node has its result."""
        self._stopping = True
        self._cancel.cancel()
        deadline = monotonic_ms() + grace_ms
        while self._running and (left := deadline - monotonic_ms()) > 0:
            try:
                word = self._inbox.get(timeout=left / 1000)
            except Empty:
                break
            if word is not None and self._running.get(word[0].work.id) is word[0]:
                self._take(*word)
        self._outcome.abandoned = bool(self._running)
        self._running.clear()
        self._carried.clear()
        self._skip_waiting()
        return self._outcome

    # --- starting ------------------------------------------------------------------------------------------------

    def _make_ready(self, ids: Iterable[str]) -> None:
        self._turn += 1
        for id in ids:
            work = self._works[id]
            heapq.heappush(self._ready, (self._turn, work.rank, work.name, id))

    def _start_ready(self) -> None:
        """Start what has room.

        A node takes its connection's permit and a place together, so that none of a full connection holds a place while
        it waits.
        """
        waiting = []
        while self._ready and self._room > 0 and not self._cancel.cancelled:
            item = heapq.heappop(self._ready)
            work = self._works[item[3]]
            if any(self._permits.get(name, 1) < 1 for name in work.permits):
                waiting.append(item)
                continue
            self._start(work)
        for item in waiting:
            heapq.heappush(self._ready, item)

    def _start(self, work: Work) -> None:
        self._started(work)
        running = Running(work, CancelToken(self._cancel), lambda: self._inbox.put(None), self._timeout_ms)
        Thread(target=self._work, args=(running,), name=f"pz-{work.name}", daemon=True).start()
        self._carried.update(work.along)
        self._running[work.id] = running  # its result is looked at by this thread alone, so not before this line
        self._room -= 1
        for name in work.permits & self._permits.keys():
            self._permits[name] -= 1

    def _work(self, running: Running) -> None:
        work = running.work
        try:
            result = self._run(running)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the dispatcher must hear of the node's end
            fault = unexpected(error).at(Where(node=work.name))
            result = NodeResult(work.id, work.kind, work.name, "failed", error=fault)
        self._inbox.put((running, result))

    # --- waiting -------------------------------------------------------------------------------------------------

    def _await_word(self) -> None:
        try:
            word = self._inbox.get(timeout=self._patience())
        except Empty:
            word = None
        if word is not None:
            running, result = word
            if self._running.get(running.work.id) is running:
                self._take(running, result)
        self._look_at_clocks()

    def _patience(self) -> float | None:
        """Seconds until the next clock runs out; ``None`` if none is ticking."""
        times: list[int] = []
        for running in self._running.values():
            until = self._gives_up_at(running) if running.told_at is not None else running.deadline
            if until is not None:
                times.append(until)
        return max(0, min(times) - monotonic_ms()) / 1000 if times else None

    def _gives_up_at(self, running: Running) -> int | None:
        return None if running.told_at is None else running.told_at + self._grace_ms

    def _look_at_clocks(self) -> None:
        now = monotonic_ms()
        for running in list(self._running.values()):
            deadline, gives_up_at = running.deadline, self._gives_up_at(running)
            if deadline is not None and now >= deadline and running.told_at is None:
                running.timed_out = True
                self._tell(running)
            elif gives_up_at is not None and now >= gives_up_at:
                self._give_up(running)

    def _tell(self, running: Running) -> None:
        running.told_at = monotonic_ms()
        # In a thread of its own: interrupting a task may itself take time, and the clocks must go on.
        Thread(target=running.token.cancel, name=f"pz-stop-{running.work.name}", daemon=True).start()

    def _give_up(self, running: Running) -> None:
        work = running.work
        limit = f"engine.node_timeout ({self._timeout_ms}ms)" if running.timed_out else "the run's end"
        error = PzError(
            "PZ0526",
            f"{self._named(work)} was told to stop at {limit} and did not within {self._grace_ms}ms; it was given up",
            where=Where(node=work.name),
            hint="the rest of the run was stopped; check the place that the node was talking to",
        )
        self._outcome.abandoned = True
        # Whether rows have come to the sink by then nobody knows, so it has not simply been left out.
        along = tuple(
            NodeResult(w.id, w.kind, w.name, "failed", error=error.at(Where(node=w.name)))
            if id == work.along[-1]
            else NodeResult(w.id, w.kind, w.name, "skipped")
            for id in work.along
            if (w := self._works.get(id)) is not None
        )
        self._take(running, NodeResult(work.id, work.kind, work.name, "failed", error=error, along=along))
        if not self._stopping:
            self._stop(from_outside=False)

    def _named(self, work: Work) -> str:
        """A node, and the sink that its rows may have been passing into: either place can be the one that hangs."""
        into = self._works.get(work.along[-1]) if work.along else None
        return work.name if into is None else f"{work.name} (on the way into {into.name})"

    # --- ending --------------------------------------------------------------------------------------------------

    def _take(self, running: Running, result: NodeResult) -> None:
        del self._running[running.work.id]
        running.token.detach()
        self._carried.difference_update(running.work.along)
        self._room += 1
        for name in running.work.permits & self._permits.keys():
            self._permits[name] += 1
        self._record(result)
        failed = any(one.status == "failed" for one in (result, *result.along))
        if failed and self._fail_fast and not self._stopping:
            self._stop(from_outside=False)

    def _record(self, result: NodeResult) -> None:
        if result.id in self._done:
            return
        ended = [result, *(r for r in result.along if r.id in self._works and r.id not in self._done)]
        self._done.update(one.id for one in ended)  # all of them first: none may become ready by another
        for one in ended:
            if one is not result:
                self._started(self._works[one.id])
            self._outcome.results.append(one)
            self._ended(one)
        for one in ended:
            self._follow(one)

    def _follow(self, result: NodeResult) -> None:
        """What the end of a node means for its children."""
        if result.status != "success":
            for child in self._children.get(result.id, ()):
                self._skip(child)
            return
        ready = []
        for child in self._children.get(result.id, ()):
            self._unfinished[child] -= 1
            if self._unfinished[child] == 0 and child not in self._done:
                ready.append(child)
        self._make_ready(ready)

    def _skip(self, id: str) -> None:
        """Skip a node and all below it, each once, without recursion: chains can be long."""
        todo = deque([id])
        while todo:
            work = self._works[todo.popleft()]
            if work.id in self._done or work.id in self._running or work.id in self._carried:
                continue
            self._done.add(work.id)
            result = self._unrun(work) or NodeResult(work.id, work.kind, work.name, "skipped")
            self._outcome.results.append(result)
            self._ended(result)
            todo.extend(self._children.get(work.id, ()))

    def _stop(self, *, from_outside: bool) -> None:
        """Start nothing more and tell every running node to stop."""
        self._stopping = True
        if from_outside:
            self._outcome.interrupted = True
            self._outcome.failed_before = any(r.status == "failed" for r in self._outcome.results)
        now = monotonic_ms()
        for running in self._running.values():
            if running.told_at is None:
                running.told_at = now
        Thread(target=self._cancel.cancel, name="pz-stop", daemon=True).start()

    def _skip_waiting(self) -> None:
        self._ready.clear()
        for id in list(self._works):
            if id not in self._done and id not in self._running and id not in self._carried:
                self._skip(id)

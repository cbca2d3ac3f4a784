"""The parent's side of one child: started, asked, waited for, and never left behind.

A child serves all connections of its package, so that what a plugin keeps for the whole process is kept once, as it
would be in pz itself. One that dies fails the operations that were under way (PZ0358); the next one starts another.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectorError
from pz_core.errors import PzError
from pz_core.plugins.isolation import codec, start
from pz_core.plugins.isolation.environment import Environment, handed_on, lent_modules
from pz_core.plugins.isolation.wire import PROTOCOL, Message, Wire, WireFault
from pz_core.values.processes import told_end

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds for a child to start and introduce itself.
HELLO_SECONDS = 60.0
#: Seconds that an operation which was told to stop may still take before its process is ended.
GRACE_SECONDS = 5.0
#: Batches that a read may be ahead of whoever consumes it.
AHEAD = 2
_LAST_BREATH_SECONDS = 2.0

_Frame = tuple[str, Message, bytearray]


class Patience:
    """How long the calls of one opened source or sink are waited for: for ever, until somebody loses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[Pending] = set()
        self.lost = False

    def lose(self) -> None:
        """Stop waiting; whoever waits wakes up."""
        with self._lock:
            self.lost = True
            waiting = tuple(self._waiting)
        for pending in waiting:
            pending.frames.put(("lost", {}, bytearray()))

    def add(self, pending: Pending) -> None:
        """A call waits."""
        with self._lock:
            self._waiting.add(pending)
            if self.lost:
                pending.frames.put(("lost", {}, bytearray()))

    def remove(self, pending: Pending) -> None:
        """It does not any more."""
        with self._lock:
            self._waiting.discard(pending)


class Pending:
    """The answers to one call, as they come."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.frames: queue.SimpleQueue[_Frame] = queue.SimpleQueue()


class Child:
    """A running child.

    Args:
        environment: of the package; it must have been made.

    Raises:
        PzError: PZ0307, PZ0354, PZ0355, PZ0356.
    """

    def __init__(self, environment: Environment) -> None:
        self.package = environment.package
        self._numbers = itertools.count(1)
        self._lanes = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._cause: str | None = None
        self._killed_for: str | None = None
        self._process, self._wire, self._lifeline = _started(environment)
        self._finalizer = weakref.finalize(self, _end, self._process, self._wire, self._lifeline)
        hello: queue.SimpleQueue[_Frame] = queue.SimpleQueue()
        threading.Thread(
            target=_listen, args=(weakref.ref(self), self._wire, hello), name=f"pz-{self.package}", daemon=True
        ).start()
        self._greet(hello)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._cause is None

    def lane(self) -> int:
        """A number for calls that run one after the other."""
        return next(self._lanes)

    def drop(self, number: int, lane: int) -> None:
        """Forget an object of the child and end its lane."""
        if self.alive:
            try:
                self._wire.send({"k": "drop", "object": number, "lane": lane})
            except OSError:
                return

    def kill(self, reason: str) -> None:
        """End the process now; every operation under way fails for this reason."""
        if self._killed_for is None:
            self._killed_for = reason
        if self._process.poll() is None:
            self._process.kill()

    # --- asking --------------------------------------------------------------------------------------------------

    def call(
        self,
        lane: int,
        on: int,
        do: str,
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        patience: Patience | None = None,
        revealing: bool = False,
    ) -> tuple[str, Any]:
        """Call a method in the child and wait.

        Args:
            lane: the calls of a lane run one after the other.
            on: number of the object in the child.
            do: the method.
            arguments: data, by position.
            named: data, by name.
            seconds: after which the child is ended; ``None`` waits for ever.
            patience: of the source or sink that the call belongs to.
            revealing: whether secrets cross; only for the handshake of a connection.

        Returns:
            ``("value", data)``, ``("batches", list)``, or ``("object", message)``.

        Raises:
            ConnectorError: PZ0358 if the child died, PZ0501 if it was waited for no longer.
            Exception: what the connector raised.
        """
        pending = self._ask(lane, on, do, arguments, named or {}, revealing=revealing)
        if patience is not None:
            patience.add(pending)
        until = None if seconds is None else time.monotonic() + seconds
        batches: list[pa.RecordBatch] = []
        try:
            while True:
                try:
                    left = None if until is None else max(0.0, until - time.monotonic())
                    kind, message, body = pending.frames.get(timeout=left)
                except queue.Empty:
                    self.kill(f"{do}() did not come back in time and the process was ended")
                    lost = patience is not None and patience.lost
                    raise (interrupted(self.package) if lost else self._death(do)) from None
                if kind == "lost":
                    until = min(until or float("inf"), time.monotonic() + GRACE_SECONDS)
                elif kind == "value":
                    return "value", self._decoded(message["v"], body)
                elif kind == "object":
                    return "object", message
                elif kind == "batch":
                    batches.append(self._batch(body))
                elif kind == "end":
                    return "batches", batches
                elif kind == "dead" and patience is not None and patience.lost:
                    raise interrupted(self.package)
                else:
                    raise self._raised(kind, message, do)
        finally:
            self._forget(pending, patience)

    def stream(
        self, on: int, do: str, arguments: Sequence[Any], named: Mapping[str, Any], patience: Patience
    ) -> Iterator[pa.RecordBatch]:
        """The batches that a method yields, read as far ahead as :data:`AHEAD`. Raises like :meth:`call`."""
        pending = self._ask(0, on, do, arguments, named, ahead=AHEAD)
        patience.add(pending)
        ended = False
        try:
            while True:
                kind, message, body = pending.frames.get()
                if kind == "batch":
                    batch = self._batch(body)
                    self._tell({"k": "more", "id": pending.number})
                    yield batch
                elif kind == "end":
                    ended = True
                    return
                elif kind == "lost":
                    raise interrupted(self.package)
                else:
                    ended = True
                    raise self._raised(kind, message, do)
        finally:
            self._forget(pending, patience)
            if not ended:
                self._tell({"k": "stop", "id": pending.number})

    def _ask(
        self,
        lane: int,
        on: int,
        do: str,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        *,
        revealing: bool = False,
        ahead: int | None = None,
    ) -> Pending:
        encoder = codec.Encoder(revealing=revealing)
        pending = Pending(next(self._numbers))
        message: dict[str, Any] = {
            "k": "call",
            "id": pending.number,
            "lane": lane,
            "on": on,
            "do": do,
            "a": [encoder.encode(value) for value in arguments],
            "n": {name: encoder.encode(value) for name, value in named.items()},
        }
        if ahead is not None:
            message["ahead"] = ahead
        body = None if encoder.batch is None else codec.body_of(encoder.batch)
        with self._lock:
            if self._cause is not None:
                raise self._death(do)
            self._pending[pending.number] = pending
        try:
            self._wire.send(message, body)
        except OSError:
            pass  # the listener tells of the death, with its cause
        return pending

    def _forget(self, pending: Pending, patience: Patience | None) -> None:
        with self._lock:
            self._pending.pop(pending.number, None)
        if patience is not None:
            patience.remove(pending)

    def _tell(self, message: Message) -> None:
        try:
            self._wire.send(message)
        except OSError:
            return

    # --- what comes back -----------------------------------------------------------------------------------------

    def deliver(self, kind: str, message: Message, body: bytearray) -> None:
        """The listener has a frame. One that belongs to nobody comes from a call that was given up."""
        with self._lock:
            pending = self._pending.get(message["id"])
        if pending is not None:
            pending.frames.put((kind, message, body))

    def died(self, broke: str | None = None) -> None:
        """The connection has ended; everybody who waits is told why.

        Args:
            broke: what was wrong with the last frame, if that is why.
        """
        if broke is not None:
            self._killed_for = self._killed_for or f"it sent {broke}"
            self._process.kill()
        try:
            self._process.wait(_LAST_BREATH_SECONDS)
        except subprocess.TimeoutExpired:
            self._killed_for = self._killed_for or "it closed its connection"
            self._process.kill()
            self._process.wait()
        with self._lock:
            self._cause = ("\0" if broke is not None else "") + (self._killed_for or told_end(self._process.returncode))
            waiting = tuple(self._pending.values())
        for pending in waiting:
            pending.frames.put(("dead", {}, bytearray()))

    def _raised(self, kind: str, message: Message, do: str) -> Exception:
        if kind == "fault":
            try:
                error = codec.raised(message["fault"])
            except (KeyError, TypeError, ValueError) as cause:
                return self._broken("a fault without form", cause)
            if isinstance(error, PzError) and error.code == "PZ0357":
                return ConnectorError(f"{self.package}: {do}(): {error.message}", code="PZ0357", hint=error.hint)
            return error
        if kind == "dead":
            return self._death(do)
        return self._broken(f"a frame of the unknown kind '{kind[:20]}'")

    def _death(self, do: str) -> ConnectorError:
        deadline = time.monotonic() + _LAST_BREATH_SECONDS
        while self._cause is None and time.monotonic() < deadline:
            time.sleep(0.01)  # it has just been ended; the listener is about to say so
        cause = self._cause or self._killed_for or "it does not answer"
        if cause.startswith("\0"):
            return ConnectorError(
                f"{self.package}: its process broke the protocol: {cause[1:]}",
                code="PZ0357",
                hint=f"report it to the authors of {self.package}",
            )
        # What a commit did before the process died is not known, so it must not be done again by itself.
        return ConnectorError(
            f"{self.package}: its process died during {do}(): {cause}",
            code="PZ0358",
            transient=do != "commit",
            hint="PZ_DEBUG=1 shows what it printed; without isolation: process the connector runs inside pz",
        )

    def _broken(self, what: str, cause: BaseException | None = None) -> ConnectorError:
        self.kill(f"it sent {what}")
        return ConnectorError(
            f"{self.package}: its process broke the protocol: it sent {what}",
            code="PZ0357",
            hint=f"report it to the authors of {self.package}",
            cause=cause,
        )

    def _decoded(self, value: Any, body: bytearray) -> Any:
        try:
            return codec.decode(value, body)
        except (ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise self._broken("data without form", error) from error

    def _batch(self, body: bytearray) -> pa.RecordBatch:
        try:
            return codec.batch_of(body)
        except ValueError as error:
            raise self._broken(str(error), error) from error

    # --- starting ------------------------------------------------------------------------------------------------

    def _greet(self, hello: queue.SimpleQueue[_Frame]) -> None:
        try:
            kind, message, _ = hello.get(timeout=HELLO_SECONDS)
        except queue.Empty:
            self.kill("it did not introduce itself in time")
            kind, message = "dead", {}
        if kind == "hello" and message.get("protocol") == PROTOCOL:
            return
        self.kill("it did not introduce itself")
        self._death("")
        cause = (self._cause or "").lstrip("\0")
        said = f"it speaks protocol {message.get('protocol')}, not {PROTOCOL}" if kind == "hello" else cause
        raise PzError(
            "PZ0356",
            f"{self.package}: its process did not introduce itself: {said}",
            hint="run pz deps sync --isolated to make its environment anew; PZ_DEBUG=1 shows what it printed",
        )


def interrupted(package: str) -> ConnectorError:
    """What a call raises that is not waited for any more."""
    return ConnectorError(f"{package}: stopped", hint="the run was told to stop")


def _started(environment: Environment) -> tuple[subprocess.Popen[bytes], Wire, int]:
    package = environment.package
    if sys.platform == "win32":
        raise PzError(
            "PZ0307",
            f"{package}: isolation: process needs Unix sockets and file descriptors, which Windows lacks",
            hint="remove isolation: process from its entry in project.yml, or run pz on Linux or macOS",
        )
    if not environment.made:
        raise not_made(environment)
    ours, theirs = socket.socketpair()
    watched, lifeline = os.pipe()
    try:
        program = str(Path(start.__file__).resolve())
        command = [str(environment.python), "-I", program, str(theirs.fileno()), str(watched), package]
        process = subprocess.Popen(
            [*command, json.dumps(lent_modules())],
            env=handed_on(os.environ),
            pass_fds=(theirs.fileno(), watched),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("PZ_DEBUG") else subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for pz, which then tells the child what to do
        )
    except OSError as error:
        ours.close()
        os.close(lifeline)
        raise PzError(
            "PZ0355",
            f"{package}: its process could not be started ({error.strerror or type(error).__name__})",
            hint="run pz deps sync --isolated to make its environment anew",
            cause=error,
        ) from error
    finally:
        theirs.close()
        os.close(watched)
    return process, Wire(ours), lifeline


def not_made(environment: Environment) -> PzError:
    """PZ0354: there is no environment to run in."""
    return PzError(
        "PZ0354",
        f"{environment.package} is isolated, and its environment has not been made for this Python",
        hint="run pz deps sync --isolated",
    )


def _listen(owner: weakref.ref[Child], wire: Wire, hello: queue.SimpleQueue[_Frame]) -> None:
    """Deliver frames until the connection ends. Holds the child only weakly, or it would never be given up."""
    greeted, broke = False, None
    try:
        while (received := wire.receive()) is not None:
            message, body = received
            kind = message.get("k")
            if not greeted:
                greeted = True
                hello.put((str(kind), message, body))
                continue
            child = owner()
            if child is None:
                return
            if not isinstance(kind, str) or not isinstance(message.get("id"), int):
                broke = "a frame without kind or number"
                break
            child.deliver(kind, message, body)
            del child
    except WireFault as fault:
        broke = str(fault)
    except OSError:
        pass
    child = owner()
    if child is not None:
        child.died(broke)
    hello.put(("dead", {}, bytearray()))


def _end(process: subprocess.Popen[bytes], wire: Wire, lifeline: int) -> None:
    """Let a child go: it ends when its connection closes, or is ended."""
    wire.close()
    try:
        process.wait(_LAST_BREATH_SECONDS / 4)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    os.close(lifeline)

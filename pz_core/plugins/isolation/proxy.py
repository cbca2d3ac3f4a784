"""The connector class that stands for one in a child, and the objects that stand for what it opens.

Each method that the other side has is here too, and so is each optional one: what a source can do beyond the contract's
least is told by its methods. All of them forward; the few that this process must know more about stand in this module.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pz_core.contract.connector import ConnectionConfig, Setup
from pz_core.errors import PzError
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.isolation.process import Child, Patience

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds for what is asked before a run: options, plans, whether a place can be reached.
ASKED_SECONDS = 60.0
#: Seconds to open a place, which connects to it.
OPEN_SECONDS = 300.0
#: Seconds to release what was opened, and to take back what was not committed.
CLOSE_SECONDS = 10.0
ABORT_SECONDS = 60.0

_OPENS = ("open_source", "open_sink")
_NATIVE = ("native_scan", "resolve_scan", "settle_scan", "native_write")
#: Number of no object, and of no lane.
_NONE = -1
#: Asked from another thread while a call is under way, so they must not wait for it.
_BESIDE = ("stop", "interrupt")
_NOT_FORWARDED = frozenset({"interrupt", "imports"})


class IsolatedPackage:
    """The connectors of an isolated package; starts its child when it is first needed, and again after it has died.

    Args:
        environment: of the package.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._lock = threading.Lock()
        self._child: Child | None = None

    def child(self) -> Child:
        """The running child.

        Raises:
            PzError: PZ0307, PZ0354, PZ0355, PZ0356.
        """
        with self._lock:
            if self._child is None or not self._child.alive:
                self._child = Child(self.environment)
            return self._child

    def registration(self, name: str) -> Any:
        """The registration of a connector, asked of its module in the child. Raises what the child's registry does."""
        return self._home("registration", name)

    def target(self, name: str) -> type[Any]:
        """The class that stands for a connector. Raises like :meth:`registration`."""
        described = self._home("describe", name)
        members: dict[str, Any] = {
            method: _connector_method(method)
            for method in described["methods"]
            if method.isidentifier() and method not in _NOT_FORWARDED
        }
        members |= described["declared"]
        members |= {"_package": self, "_registered": name, "__doc__": f"Connector '{name}' in its own process."}
        return type("Isolated", (_Connector,), members)

    def _home(self, method: str, name: str) -> Any:
        child = self.child()
        lane = child.lane()
        answer = child.call(lane, 0, method, [name], seconds=ASKED_SECONDS)[1]
        child.drop(_NONE, lane)
        return answer


class _Connector:
    """One connection. Its counterpart is made at once, and anew in a child that had to be started again."""

    _package: IsolatedPackage
    _registered: str

    def __init__(self, connection: ConnectionConfig) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._made: tuple[Child, int] | None = None
        self._there()

    def _there(self) -> tuple[Child, int]:
        """The child, and the number of this connection's connector in it."""
        with self._lock:
            if self._made is None or not self._made[0].alive:
                child = self._package.child()
                handshake = [self._registered, self._connection]
                lane = child.lane()
                _, message = child.call(lane, 0, "connect", handshake, seconds=ASKED_SECONDS, revealing=True)
                child.drop(_NONE, lane)
                self._made = (child, message["object"])
            return self._made

    def _ask(self, method: str, arguments: Iterable[Any], named: Mapping[str, Any]) -> Any:
        child, number = self._there()
        lane = child.lane()
        seconds = OPEN_SECONDS if method in _OPENS else ASKED_SECONDS
        kind, answer = child.call(lane, number, method, tuple(arguments), named, seconds=seconds)
        if kind == "object":
            capabilities = type(self).capabilities  # type: ignore[attr-defined]
            only = {
                "native_write": capabilities.native_write and not capabilities.universal_write,
                "scan": capabilities.native_read and not capabilities.universal_read,
            }
            return _remote(child, lane, answer, Patience(), only)
        child.drop(_NONE, lane)
        return answer


class _Remote:
    """A source, a sink or a session in the child. Calls of a sink and its session share a lane."""

    def __init__(
        self, child: Child, lane: int, number: int, patience: Patience, native_only: Mapping[str, bool]
    ) -> None:
        self._child = child
        self._lane = lane
        self._number = number
        self._patience = patience
        self._native_only = native_only
        self._inner: list[int] = []
        self._closed = False

    #: Whether the other side can stop by itself, too.
    _interruptible = False

    def interrupt(self) -> None:
        """Stop what is under way, soon; called from another thread."""
        self._patience.lose()
        if self._interruptible:
            threading.Thread(target=self._beside, args=("interrupt",), daemon=True).start()

    def _beside(self, method: str) -> None:
        lane = self._child.lane()
        with contextlib.suppress(PzError):
            self._child.call(lane, self._number, method, seconds=ASKED_SECONDS)
        self._child.drop(_NONE, lane)

    def _ask(self, method: str, arguments: Iterable[Any], named: Mapping[str, Any]) -> Any:
        seconds: float | None = None
        patience: Patience | None = self._patience
        if method in _NATIVE:
            seconds = None if method == "settle_scan" or method == "resolve_scan" else ASKED_SECONDS
        elif method == "close":
            if self._closed or not self._child.alive:
                return None  # its death was told by the call that met it, and nothing is left to release
            self._closed = True
            seconds = CLOSE_SECONDS
        elif method == "abort":
            seconds, patience = ABORT_SECONDS, None
        elif method == "commit":
            patience = None  # what has begun to be made visible is waited for
        try:
            answer = self._child.call(
                self._lane, self._number, method, tuple(arguments), named, seconds=seconds, patience=patience
            )
        finally:
            if method == "close":
                for number in self._inner:
                    self._child.drop(number, _NONE)
                self._child.drop(self._number, self._lane)
        kind, result = answer
        if kind == "object":
            self._inner.append(result["object"])
            return _remote(self._child, self._lane, result, self._patience, self._native_only)
        if kind == "batches":
            return iter(result)
        return self._allowed(method, result) if method in _NATIVE else result

    def _allowed(self, method: str, way: Any) -> Any:
        """A native way that DuckDB can go without an extension and without a secret, else ``None``."""
        setup: tuple[Setup, ...] = () if way is None else tuple(way.setup)
        foreign = next((s for s in setup if s.kind in ("extension", "secret") or _loads(s.sql)), None)
        if foreign is None:
            return way
        if self._native_only["native_write" if method == "native_write" else "scan"]:
            raise PzError(
                "PZ0360",
                f"{self._child.package} is isolated, and its connector works only through DuckDB "
                f"with a statement of the kind '{foreign.kind}'",
                hint="remove isolation: process from its entry in project.yml",
            )
        return None


def _loads(sql: str) -> bool:
    return sql.lstrip().upper().startswith(("LOAD", "INSTALL", "FORCE"))


def _remote(
    child: Child, lane: int, message: Mapping[str, Any], patience: Patience, native_only: Mapping[str, bool]
) -> _Remote:
    members: dict[str, Any] = {
        method: _method(method)
        for method in message["methods"]
        if method.isidentifier() and method not in _NOT_FORWARDED
    }
    members["_interruptible"] = "interrupt" in message["methods"]
    made: type[_Remote] = type("IsolatedObject", (_Remote,), members | dict(message["attributes"]))
    return made(child, lane, message["object"], patience, native_only)


def _method(name: str) -> Callable[..., Any]:
    if name == "read":

        def read(self: _Remote, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
            return self._child.stream(self._number, "read", arguments, named, self._patience)

        return read
    if name in _BESIDE:

        def stop(self: _Remote) -> None:
            self._beside(name)

        return stop

    def forward(self: _Remote, *arguments: Any, **named: Any) -> Any:
        return self._ask(name, arguments, named)

    forward.__name__ = name
    return forward


def _connector_method(name: str) -> Callable[..., Any]:
    def forward(self: _Connector, *arguments: Any, **named: Any) -> Any:
        return self._ask(name, arguments, named)

    forward.__name__ = name
    return forward

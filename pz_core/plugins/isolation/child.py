"""The child's side: answers what the parent asks of the connectors of one package.

A call names a lane; calls of a lane run one after the other on a thread of their own, as those of a node do in pz. A
``read`` runs on a further thread, as far ahead as the parent allows.
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pz_core.contract.connector import ConnectorError
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError, withhold
from pz_core.plugins.isolation.codec import CannotCross, Encoder, body_of, decode, fault
from pz_core.plugins.isolation.wire import PROTOCOL, Message, Wire, WireFault
from pz_core.plugins.registry import Registry

#: Methods whose result is read batch by batch, and not all at once.
STREAMED = "read"
#: What a session tells of itself besides its methods.
ATTRIBUTES = ("staged", "target", "order", "dialect", "ledger")
_Task = Callable[[], None]


def serve(protocol: int, package: str) -> None:
    """Answer until the parent closes the connection; then the process ends, whatever its threads do.

    Args:
        protocol: descriptor of the socket.
        package: normalised name of the isolated package.
    """
    from pz_core import __version__

    wire = Wire(socket.socket(fileno=protocol))
    server = _Server(wire, package)
    try:
        wire.send({"k": "hello", "protocol": PROTOCOL, "core": __version__})
        while (received := wire.receive()) is not None:
            server.take(*received)
    except (OSError, WireFault):
        pass
    finally:
        os._exit(0)


class _Home:
    """What a parent can ask before it has an object: the package's connectors."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._registry = Registry(allowed=[package])

    def registration(self, name: str) -> Any:
        """The registration of a connector."""
        return self._registry.registration("connector", name)

    def describe(self, name: str) -> Any:
        """What the class of a connector declares, and the names of its methods."""
        target = self._registry.load("connector", name)
        return {
            "declared": {
                "name": getattr(target, "name", name),
                "connection_options": target.connection_options,
                "read_options": target.read_options,
                "write_options": target.write_options,
                "capabilities": target.capabilities,
            },
            "methods": list(_methods(target)),
        }

    def connect(self, name: str, connection: Any) -> Any:
        """The handshake of a connection: the one message that secrets cross in."""
        withhold(dict(_secrets(connection.options, "")))
        return self._registry.load("connector", name)(connection)


class _Server:
    def __init__(self, wire: Wire, package: str) -> None:
        self._wire = wire
        self._objects: dict[int, Any] = {0: _Home(package)}
        self._numbers = itertools.count(1)
        self._lanes: dict[int, queue.SimpleQueue[_Task | None]] = {}
        self._streams: dict[int, _Credit] = {}

    def take(self, message: Message, body: bytearray) -> None:
        """Take a message from the parent; never waits for a plugin."""
        kind = message["k"]
        if kind == "call":
            if message["do"] == STREAMED:
                self._streams[message["id"]] = _Credit(message["ahead"])
                threading.Thread(target=self._stream, args=(message, body), daemon=True).start()
            else:
                self._lane(message["lane"]).put(lambda: self._call(message, body))
        elif kind == "more" and message["id"] in self._streams:
            self._streams[message["id"]].more()
        elif kind == "stop" and message["id"] in self._streams:
            self._streams[message["id"]].stop()
        elif kind == "drop":
            self._objects.pop(message["object"], None)
            lane = self._lanes.pop(message["lane"], None)
            if lane is not None:
                lane.put(None)

    def _lane(self, number: int) -> queue.SimpleQueue[_Task | None]:
        if number not in self._lanes:
            self._lanes[number] = tasks = queue.SimpleQueue[_Task | None]()
            threading.Thread(target=_run, args=(tasks,), name=f"lane-{number}", daemon=True).start()
        return self._lanes[number]

    def _call(self, message: Message, body: bytearray) -> None:
        number = message["id"]
        try:
            result = self._asked(message, body)
            if isinstance(result, Iterator):
                for batch in result:
                    self._wire.send({"k": "batch", "id": number}, body_of(batch))
                self._wire.send({"k": "end", "id": number})
            else:
                self._answer(number, result)
        except BaseException as error:  # noqa: BLE001 - a plugin can raise anything, SystemExit too; the parent is told
            self._fault(number, error)

    def _answer(self, number: int, result: Any) -> None:
        encoder = Encoder()
        try:
            value = encoder.encode(result)
        except CannotCross:
            if not _is_object(result):
                raise
            self._objects[number_of := next(self._numbers)] = result
            methods = list(_methods(type(result)))
            attributes = {name: made for name in ATTRIBUTES if isinstance(made := getattr(result, name, None), str)}
            answer = {"k": "object", "id": number, "object": number_of, "methods": methods, "attributes": attributes}
            self._wire.send(answer)
            return
        batch = None if encoder.batch is None else body_of(encoder.batch)
        self._wire.send({"k": "value", "id": number, "v": value}, batch)

    def _stream(self, message: Message, body: bytearray) -> None:
        number, credit = message["id"], self._streams[message["id"]]
        try:
            batches = self._asked(message, body)
            try:
                while credit.wait():
                    batch = next(batches, None)
                    if batch is None:
                        break
                    self._wire.send({"k": "batch", "id": number}, body_of(batch))
            finally:
                close = getattr(batches, "close", None)
                if close is not None:
                    close()
            self._wire.send({"k": "end", "id": number})
        except BaseException as error:  # noqa: BLE001 - as above
            self._fault(number, error)
        finally:
            self._streams.pop(number, None)

    def _asked(self, message: Message, body: bytearray) -> Any:
        target = self._objects.get(message["on"])
        if target is None:
            raise ConnectorError("it is closed", hint="a source or a sink is used until it is closed, and not after")
        arguments = [decode(value, body) for value in message["a"]]
        named = {name: decode(value, body) for name, value in message["n"].items()}
        result = getattr(target, message["do"])(*arguments, **named)
        return iter(result) if message["do"] == STREAMED else result

    def _fault(self, number: int, error: BaseException) -> None:
        if isinstance(error, CannotCross):
            what = f"it gave a {error} where data of the contract is due"
            error = PzError("PZ0357", what, hint="report it to the connector's authors")
        try:
            self._wire.send({"k": "fault", "id": number, "fault": fault(error)})
        except OSError:
            os._exit(0)


class _Credit:
    """How many batches a stream may still send."""

    def __init__(self, ahead: int) -> None:
        self._left = ahead
        self._stopped = False
        self._state = threading.Condition()

    def more(self) -> None:
        """One more."""
        with self._state:
            self._left += 1
            self._state.notify()

    def stop(self) -> None:
        """No more at all."""
        with self._state:
            self._stopped = True
            self._state.notify()

    def wait(self) -> bool:
        """Wait until one may be sent; ``False`` if nobody wants it any more."""
        with self._state:
            self._state.wait_for(lambda: self._left > 0 or self._stopped)
            self._left -= 1
            return not self._stopped


def _run(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task()


def _methods(kind: type) -> Iterator[str]:
    for name in dir(kind):
        if not name.startswith("_") and callable(getattr(kind, name, None)):
            yield name


def _is_object(result: Any) -> bool:
    """Whether a result can be an opened source, sink or session."""
    return any(hasattr(result, name) for name in ("close", "commit", "validate"))


def _secrets(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Secret):
        yield reveal(value), f"<{name}>"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, name or key)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(item, name)

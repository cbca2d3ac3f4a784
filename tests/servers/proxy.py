"""A way to a server that breaks when told to: bytes go through until a condition holds, then both ends are cut."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

Cut = Callable[[bytes, int], bool]


class Proxy:
    """Listens on a loopback port and passes bytes to a server.

    Args:
        host: of the server.
        port: of the server.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._refusing = False
        self.cut_request: Cut | None = None
        self.cut_answer: Cut | None = None
        #: Connections that were cut.
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def cut_all(self) -> None:
        """Cut every connection now."""
        with self._lock:
            for one in tuple(self._sockets):
                _reset(one)
            self._sockets.clear()

    def refuse(self, refusing: bool = True) -> None:
        """Cut new connections as soon as they are made, and those that are there."""
        self._refusing = refusing
        if refusing:
            self.cut_all()

    def heal(self) -> None:
        """Let everything through again."""
        self.cut_request = self.cut_answer = None
        self._refusing = False

    def close(self) -> None:
        """End."""
        self._closed = True
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                self.cuts += 1
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._sockets |= {client, server}
            for source, sink, way in ((client, server, "request"), (server, client, "answer")):
                threading.Thread(target=self._pump, args=(source, sink, way), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                passed += len(data)
                cut: Cut | None = getattr(self, f"cut_{way}")
                if cut is not None and cut(data, passed):
                    self.cuts += 1
                    break
                sink.sendall(data)
            else:
                sink.shutdown(socket.SHUT_WR)
                return
        with self._lock:
            self._sockets -= {source, sink}
        _reset(source)
        _reset(sink)


def _reset(one: socket.socket) -> None:
    """Close so that the other side sees a reset, as when a machine goes away."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()


@contextlib.contextmanager
def proxy_to(host: str, port: int) -> Iterator[Proxy]:
    """A proxy for a block."""
    made = Proxy(host, port)
    try:
        yield made
    finally:
        made.close()

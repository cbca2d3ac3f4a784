"""A TCP proxy on this machine that drops connections at a chosen moment."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType


class DroppingProxy:
    """Forwards connections to a server until told otherwise.

    Point the client at :attr:`host` and :attr:`port`. Without a condition it only forwards; with one, the connection on
    which the condition comes true is dropped, with a reset, and so is every later one while :attr:`down` is set.

    Args:
        target: host and port of the server.
        after_sent: bytes from client to server after which the connection is dropped.
        after_received: bytes from server to client after which it is dropped.
        after_seeing: bytes in the stream from client to server, such as ``b"COMMIT"``, after which it is dropped.
        swallow_answer: what :attr:`after_seeing` saw is still handed on, and the server answers, but the client never
            gets the answer; without it the server does not get what was seen.
        times: how many connections are dropped before it only forwards again.

    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        target: tuple[str, int],
        *,
        after_sent: int | None = None,
        after_received: int | None = None,
        after_seeing: bytes | None = None,
        swallow_answer: bool = False,
        times: int = 1,
    ) -> None:
        self._target = target
        self.after_sent = after_sent
        self.after_received = after_received
        self.after_seeing = after_seeing
        self.swallow_answer = swallow_answer
        self.times = times
        self.down = False
        self.dropped = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, name="pz-proxy", daemon=True).start()

    def __enter__(self) -> DroppingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_all()

    def drop_all(self) -> None:
        """Drop every open connection now."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.drop()

    def armed(self) -> bool:
        """Whether there is a connection left to drop."""
        with self._lock:
            return self.dropped < self.times

    def drop(self, pair: _Pair) -> None:
        """Drop one connection and count it."""
        with self._lock:
            self.dropped += 1
        pair.drop()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.down:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            pair = _Pair(self, client, server)
            with self._lock:
                self._pairs.append(pair)
            pair.start()


class _Pair:
    """One connection: both sockets, and what went through them."""

    def __init__(self, proxy: DroppingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._seen = False

    def start(self) -> None:
        for work in (self._upstream, self._downstream):
            threading.Thread(target=work, name="pz-proxy-pair", daemon=True).start()

    def drop(self) -> None:
        _reset(self._client)
        _reset(self._server)

    def _upstream(self) -> None:
        proxy, sent, tail = self._proxy, 0, b""
        while data := _received(self._client):
            if proxy.armed():
                wanted = proxy.after_seeing
                if wanted is not None:
                    window = tail + data
                    found = window.find(wanted)
                    tail = window[-len(wanted) + 1 :] if len(wanted) > 1 else b""
                    if found >= 0 and not proxy.swallow_answer:
                        proxy.drop(self)
                        return
                    self._seen = self._seen or found >= 0
                if proxy.after_sent is not None and sent + len(data) > proxy.after_sent:
                    _send(self._server, data[: max(0, proxy.after_sent - sent)])
                    proxy.drop(self)
                    return
            sent += len(data)
            if not _send(self._server, data):
                break
        self._half_close(self._server)

    def _downstream(self) -> None:
        proxy, received = self._proxy, 0
        while data := _received(self._server):
            if self._seen and proxy.armed():
                # The server has done what it was asked and says so; the client is not to hear it.
                proxy.drop(self)
                return
            limit = proxy.after_received
            if limit is not None and proxy.armed() and received + len(data) > limit:
                _send(self._client, data[: max(0, limit - received)])
                proxy.drop(self)
                return
            received += len(data)
            if not _send(self._client, data):
                break
        self._half_close(self._client)

    @staticmethod
    def _half_close(side: socket.socket) -> None:
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_WR)


def _received(side: socket.socket) -> bytes:
    try:
        return side.recv(65_536)
    except OSError:
        return b""


def _send(side: socket.socket, data: bytes) -> bool:
    try:
        side.sendall(data)
    except OSError:
        return False
    return True


def _reset(side: socket.socket) -> None:
    """Close with a reset, as a machine does that is gone."""
    with contextlib.suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()

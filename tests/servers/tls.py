"""TLS in front of a server that has none: it answers PostgreSQL's SSLRequest, and passes on what comes out of it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading

_SSL_REQUEST, _CANCEL_REQUEST, _GSS_REQUEST = 80877103, 80877102, 80877104


class TlsProxy:
    """Listens on a loopback port.

    Args:
        target: host and port of the server.
        context: the server's side of TLS.
    """

    def __init__(self, target: tuple[str, int], context: ssl.SSLContext) -> None:
        self._target, self._context = target, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        #: Connections that speak TLS, and those that began to speak in clear.
        self.wrapped = self.plain = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> TlsProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                first = client.recv(8, socket.MSG_WAITALL)
                if len(first) < 8:
                    client.close()
                    return
                _, code = struct.unpack("!ii", first)
                if code == _GSS_REQUEST:
                    client.sendall(b"N")
                    continue
                break
            if code == _SSL_REQUEST:
                client.sendall(b"S")
                client = self._context.wrap_socket(client, server_side=True)
                self._sockets.append(client)
                self.wrapped += 1
                first = b""
            elif code != _CANCEL_REQUEST:
                self.plain += 1
            server = socket.create_connection(self._target)
            self._sockets.append(server)
            server.sendall(first)
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

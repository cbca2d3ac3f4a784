"""Frames on a socket: a JSON head, and a body of bytes behind it where Arrow rows cross. Both sides use it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

#: Version of what the two sides say to each other.
PROTOCOL = 1

_LENGTHS = struct.Struct("!IQ")
_LONGEST_HEAD = 64 * 1024 * 1024
_LONGEST_BODY = 1 << 40
_CHUNK = 8 * 1024 * 1024

Message = Mapping[str, Any]


class WireFault(Exception):
    """What came is no frame."""


class Wire:
    """One end of the socket. Any thread may send; one thread receives.

    Args:
        connected: the socket, which belongs to the wire from now on.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._sending = threading.Lock()

    def send(self, message: Message, body: memoryview | None = None) -> None:
        """Send a frame, whole.

        Args:
            message: JSON-ready data.
            body: bytes to go behind it.

        Raises:
            OSError: if the other end is gone.
        """
        head = json.dumps(message, separators=(",", ":")).encode()
        size = 0 if body is None else body.nbytes
        with self._sending:
            self._socket.sendall(_LENGTHS.pack(len(head), size) + head)
            if body is not None:
                self._socket.sendall(body)

    def receive(self) -> tuple[Message, bytearray] | None:
        """Wait for a frame; ``None`` once the other end is closed.

        Raises:
            WireFault: if it is no frame, or ends in the middle.
            OSError: if the connection broke.
        """
        lengths = self._exactly(_LENGTHS.size, at_start=True)
        if lengths is None:
            return None
        head_size, body_size = _LENGTHS.unpack(lengths)
        if head_size > _LONGEST_HEAD or body_size > _LONGEST_BODY:
            raise WireFault("a frame without measure")
        head = self._exactly(head_size)
        body = self._exactly(body_size)
        try:
            message = json.loads(bytes(head or b""))
        except (ValueError, RecursionError):
            raise WireFault("a frame whose head is no JSON") from None
        if not isinstance(message, dict):
            raise WireFault("a frame whose head is no object")
        return message, body or bytearray()

    def close(self) -> None:
        """Close this end; the other one reads the end of the stream."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _exactly(self, size: int, *, at_start: bool = False) -> bytearray | None:
        # Grown as bytes arrive: a length that lies must not cost memory.
        made = bytearray(min(size, _CHUNK))
        got = 0
        while got < size:
            if got == len(made):
                made.extend(bytes(min(size - got, len(made))))
            with memoryview(made) as view:
                count = self._socket.recv_into(view[got:])
            if count == 0:
                if at_start and got == 0:
                    return None
                raise WireFault("a frame that ends in the middle")
            got += count
        return made

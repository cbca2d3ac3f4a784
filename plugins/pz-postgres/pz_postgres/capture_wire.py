"""The messages of ``pgoutput`` (protocol 1), as rows: what happened, where in the log, and the values as text."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Iterator, Sequence
from typing import IO

from msgspec import Struct

from pz_core.contract.capture import DELETE, INSERT, UPDATE

#: A value that was not written anew and is therefore not in the log.
UNCHANGED = False
#: The text of a value, ``None`` for NULL, or :data:`UNCHANGED`.
Text = str | bool | None
_SIZE = struct.Struct(">I")


class NotCaptured(Exception):
    """The log holds what cannot be carried on as changes of rows; the text says what, without a value."""


class Change(Struct, frozen=True):
    """One change of one row.

    Args:
        op: one of the words of the contract.
        position: of its commit in the log.
        changed_at: of its commit, in microseconds since 2000.
        values: by column, those that the log has.
    """

    op: str
    position: int
    changed_at: int
    values: dict[str, Text]


class Decoder(Struct):
    """Decodes the messages of one table, transaction by transaction.

    Args:
        table: its oid.
        keys: its key columns.
        after: commits before this place are passed over: they were taken before.
        before: commits from this place on are passed over; ``None`` for none.
        key_types: of the keys as the table has them now, by oid: deletes of keys of other types are passed over.
    """

    table: int
    keys: tuple[str, ...]
    after: int = 0
    before: int | None = None
    key_types: dict[str, int] | None = None
    unresolved: bool = False
    last_end: int = 0
    _columns: tuple[str, ...] | None = None
    _position: int = 0
    _changed_at: int = 0
    _taken: bool = False
    _foreign: bool = False

    def take(self, data: bytes) -> Iterator[Change]:
        """The changes that one message holds.

        Raises:
            NotCaptured: for a TRUNCATE, and for a message that is not understood.
        """
        kind = data[:1]
        if kind == b"B":
            self._position, self._changed_at = struct.unpack_from(">qq", data, 1)
            self._taken = self._position >= self.after and (self.before is None or self._position < self.before)
        elif kind == b"C":
            if self._taken:
                self.last_end = max(self.last_end, struct.unpack_from(">q", data, 10)[0])
        elif kind == b"R":
            self._relation(data)
        elif kind in (b"I", b"U", b"D"):
            if self._taken and struct.unpack_from(">I", data, 1)[0] == self.table:
                yield from self._row(kind, data)
        elif kind == b"T":
            count = struct.unpack_from(">I", data, 1)[0]
            if self._taken and self.table in struct.unpack_from(f">{count}I", data, 6):
                raise NotCaptured("the table was truncated, and a log says nothing of the rows that were in it")
        elif kind not in (b"Y", b"O", b"M"):
            raise NotCaptured("the log holds a message of a kind that is not known")

    # --- parts -------------------------------------------------------------------------------------------------------

    def _relation(self, data: bytes) -> None:
        if struct.unpack_from(">I", data, 1)[0] != self.table:
            return
        at = 5
        for _ in range(2):  # schema and name
            at = data.index(b"\0", at) + 1
        count = struct.unpack_from(">h", data, at + 1)[0]
        at += 3
        types: dict[str, int] = {}
        for _ in range(count):
            end = data.index(b"\0", at + 1)
            types[data[at + 1 : end].decode()] = _SIZE.unpack_from(data, end + 1)[0]
            at = end + 9
        self._columns = tuple(types)
        known = self.key_types or {}
        self._foreign = any(types.get(name) != kind for name, kind in known.items())

    def _row(self, kind: bytes, data: bytes) -> Iterator[Change]:
        part, at = data[5:6], 6
        old: dict[str, Text] | None = None
        if part in (b"K", b"O"):
            old, at = self._tuple(data, at, keys_only=part == b"K")
            part, at = data[at : at + 1], at + 1
        if kind == b"D":
            if old is None:
                raise NotCaptured("a deleted row stands in the log without its key")
            if not self._foreign:
                yield self._change(DELETE, {name: old.get(name) for name in self.keys})
            return
        new, _ = self._tuple(data, at, keys_only=False)
        if old is not None:
            for name, value in new.items():
                if value is UNCHANGED and name in old and old[name] is not UNCHANGED:
                    new[name] = old[name]
        if any(new.get(name, UNCHANGED) is UNCHANGED for name in self.keys):
            raise NotCaptured("a changed row stands in the log without its key")
        if (
            kind == b"U"
            and old is not None
            and not self._foreign
            and any(old.get(name) != new[name] for name in self.keys)
        ):
            yield self._change(DELETE, {name: old.get(name) for name in self.keys})
        if UNCHANGED in new.values():
            self.unresolved = True
        yield self._change(INSERT if kind == b"I" else UPDATE, new)

    def _tuple(self, data: bytes, at: int, *, keys_only: bool) -> tuple[dict[str, Text], int]:
        names = self._columns
        count = struct.unpack_from(">h", data, at)[0]
        at += 2
        if names is None or count != len(names):
            raise NotCaptured("a row stands in the log without a description of its columns")
        made: dict[str, Text] = {}
        for name in names:
            kind, at = data[at : at + 1], at + 1
            if kind == b"n":
                made[name] = None
            elif kind == b"u":
                made[name] = UNCHANGED
            elif kind == b"t":
                size = _SIZE.unpack_from(data, at)[0]
                at += 4
                made[name] = data[at : at + size].decode()
                at += size
            else:
                raise NotCaptured("a value stands in the log in a form that is not known")
        if keys_only:
            made = {name: made[name] for name in self.keys if name in made}
        return made, at

    def _change(self, op: str, values: dict[str, Text]) -> Change:
        return Change(op, self._position, self._changed_at, values)


class Spool:
    """Changes on the disk, so that a long log needs no memory and the server is asked once.

    Args:
        stream: an empty file that is open for both.
        ops: keep only these; all without it.
    """

    def __init__(self, stream: IO[bytes], ops: frozenset[str] | None = None) -> None:
        self._stream, self._ops = stream, ops
        self.rows = 0

    def add(self, change: Change) -> None:
        """Write one down, if it is of those that are kept."""
        if self._ops is not None and change.op not in self._ops:
            return
        packed = marshal.dumps((change.op, change.position, change.changed_at, change.values))
        self._stream.write(_SIZE.pack(len(packed)) + packed)
        self.rows += 1

    def chunks(self, rows: int, size: int) -> Iterator[Sequence[Change]]:
        """All of them in order, in pieces of at most so many rows and about so many bytes."""
        self._stream.seek(0)
        made: list[Change] = []
        held = 0
        while head := self._stream.read(_SIZE.size):
            packed = self._stream.read(_SIZE.unpack(head)[0])
            made.append(Change(*marshal.loads(packed)))
            held += len(packed)
            if len(made) >= rows or held >= size:
                yield made
                made, held = [], 0
        if made:
            yield made


def position_of(text: str) -> int:
    """A place in the log as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def position_text(position: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"

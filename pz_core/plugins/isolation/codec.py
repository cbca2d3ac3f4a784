"""What crosses between the two processes, as JSON-ready data: the records of the contract, plain values, one batch.

A secret crosses in one message only, the handshake of a connection, whose sender says ``revealing``.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError, PzErrors, Where, without_withheld

if TYPE_CHECKING:
    import pyarrow as pa

_ROOMS = ("pz_core.contract.", "pz_core.values.")


class CannotCross(TypeError):
    """A value is none that may pass from one process to the other; the text names its type."""


class Encoder:
    """Encodes one message's values.

    Args:
        revealing: whether secrets may be among them.
    """

    def __init__(self, *, revealing: bool = False) -> None:
        self._revealing = revealing
        self.batch: pa.RecordBatch | None = None

    def encode(self, value: Any) -> Any:
        """The value as JSON-ready data.

        Raises:
            CannotCross: for anything that is no data of the contract.
        """
        if value is None or isinstance(value, (str, bool, float)):
            return value if type(value) in (str, bool, float, type(None)) else _plain(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Secret):
            return self._secret(value)
        if isinstance(value, Mapping):
            return {"~m": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, (list, tuple)):
            record = {"~l": [self.encode(item) for item in value]}
            return record if isinstance(value, list) else {"~t": record["~l"]}
        if isinstance(value, (set, frozenset)):
            return {"~f": [self.encode(item) for item in sorted(value, key=repr)]}
        if isinstance(value, (PzError, PzErrors)):
            return {"~e": fault(value)}
        record_type = _record_type(type(value))
        if record_type is not None:
            known = record_type.__struct_fields__
            return {"~d": _name(record_type), "~v": [[name, self.encode(getattr(value, name))] for name in known]}
        return self._rows(value)

    def _secret(self, value: Secret) -> Any:
        if not self._revealing:
            raise CannotCross("Secret")
        return {"~s": reveal(value)}

    def _rows(self, value: Any) -> Any:
        kind = type(value)
        if kind.__name__ != "RecordBatch" or not kind.__module__.startswith("pyarrow") or self.batch is not None:
            raise CannotCross(kind.__name__)
        self.batch = value
        return {"~b": 0}


def decode(value: Any, body: bytearray) -> Any:
    """What :class:`Encoder` encoded.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, ImportError: if it is not of that form.
    """
    if isinstance(value, list):
        raise ValueError("a bare list")
    if not isinstance(value, dict):
        return value
    ((tag, inner), *others) = value.items()
    if tag == "~m":
        return {decode(key, body): decode(item, body) for key, item in inner}
    if tag == "~l":
        return [decode(item, body) for item in inner]
    if tag == "~t":
        return tuple(decode(item, body) for item in inner)
    if tag == "~f":
        return frozenset(decode(item, body) for item in inner)
    if tag == "~s":
        return Secret(inner)
    if tag == "~e":
        return raised(inner)
    if tag == "~d":
        return _record(inner)(**{name: decode(item, body) for name, item in dict(others)["~v"]})
    if tag == "~b":
        return batch_of(body)
    raise ValueError("an unknown tag")


# --- rows ------------------------------------------------------------------------------------------------------------


def body_of(batch: pa.RecordBatch) -> memoryview:
    """A batch as an Arrow IPC stream of its own: schema, dictionaries and rows are always together."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return memoryview(sink.getvalue())


def batch_of(body: bytearray) -> pa.RecordBatch:
    """The batch in a body; its columns are views of the body's bytes.

    Raises:
        ValueError: if it is no Arrow.
    """
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()
    except (pa.ArrowException, StopIteration, OSError) as error:
        raise ValueError("rows that are no Arrow") from error


# --- faults ----------------------------------------------------------------------------------------------------------


def fault(error: BaseException) -> dict[str, Any]:
    """A fault as data. Of a foreign one only the type crosses (and, of the system's, number and file)."""
    if isinstance(error, PzErrors):
        return {"many": [fault(one) for one in error.errors]}
    if isinstance(error, PzError):
        made: dict[str, Any] = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "where": [error.where.file, error.where.line, error.where.node],
        }
        if isinstance(error, ConnectorError):
            made |= {"transient": bool(error.transient), "retry_after": error.retry_after}
        return made
    made = {"type": type(error).__name__}
    if isinstance(error, OSError) and error.errno:
        made |= {"errno": error.errno, "file": error.filename if isinstance(error.filename, str) else None}
    if os.environ.get("PZ_DEBUG"):
        made["trace"] = without_withheld("".join(traceback.format_exception(error)))
    return made


def raised(made: Mapping[str, Any]) -> Exception:
    """The exception to raise for a fault that crossed."""
    if "many" in made:
        return PzErrors([_coded(one) for one in made["many"]])
    if "code" in made:
        return _coded(made)
    if made.get("errno"):
        return OSError(made["errno"], os.strerror(made["errno"]), made.get("file"))
    # A class of the same name, because that name is what a message tells.
    kind: type[Exception] = type(str(made["type"]), (Exception,), {})
    return kind(made.get("trace", ""))


def _coded(made: Mapping[str, Any]) -> PzError:
    where = Where(*made["where"])
    if "transient" not in made:
        return PzError(made["code"], made["message"], where=where, hint=made["hint"])
    return ConnectorError(
        made["message"],
        transient=made["transient"],
        retry_after=made["retry_after"],
        code=made["code"],
        where=where,
        hint=made["hint"],
    )


# --- records ---------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else float(value)


def _record_type(kind: type) -> type[Struct] | None:
    """The record of the contract that a class is, or is made from."""
    return next(
        (base for base in kind.__mro__ if issubclass(base, Struct) and base.__module__.startswith(_ROOMS)), None
    )


def _name(record: type) -> str:
    return f"{record.__module__}:{record.__qualname__}"


def _record(name: str) -> type[Struct]:
    module, _, attribute = name.partition(":")
    if not module.startswith(_ROOMS):
        raise ValueError("a record of another room")
    found = getattr(import_module(module), attribute)
    if not (isinstance(found, type) and issubclass(found, Struct)):
        raise ValueError("no record")
    return found

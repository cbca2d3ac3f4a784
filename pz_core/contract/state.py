"""The contract of a state backend: compare-and-set on keyed entries, and past runs where it can hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct

from pz_core.values import Value


class StateEntry(Struct, frozen=True):
    """A stored entry.

    Args:
        version: changes with every write.
        project: name of the project that wrote it, where the store may be shared and knows.
    """

    payload: Mapping[str, Value]
    version: str
    project: str | None = None


class StateBackend(Protocol):
    """Where a project remembers what it has read. The class is what a registration's target names.

    It is made with the keys that stand under ``state:``. For a backend that takes ``connection``, that key holds the
    :class:`~pz_core.contract.connector.ConnectionConfig` of the connection that the project names, secrets wrapped; if
    the project names none and ``PZ_STATE_CONNECTION_STRING`` is set, ``connection_string`` is its text as a
    :class:`~pz_core.contract.secrets.Secret`. Such a backend gets the project's name as ``project``, too. Making one
    touches nothing outside the process.
    """

    name: ClassVar[str]

    def __init__(self, settings: Mapping[str, Value], project_dir: str) -> None: ...

    def describe(self) -> str:
        """One line for a note, without a credential."""

    def read(self, scope: str, key: str) -> StateEntry | None:
        """The entry, or ``None`` if nothing is stored."""

    def entries(self, scope: str) -> Mapping[str, StateEntry]:
        """All entries of a scope by key, sorted."""

    def write(self, scope: str, key: str, payload: Mapping[str, Value], expected: str | None) -> StateEntry:
        """Store a payload if the entry is still at version ``expected`` (``None``: still absent).

        Raises:
            PzError: PZ0520 if somebody else wrote it, PZ0518 if the store cannot be reached.
        """

    def remove(self, scope: str, key: str, expected: str) -> None:
        """Remove an entry that is still at version ``expected``.

        Raises:
            PzError: PZ0520 if somebody else wrote it.
        """

    def close(self) -> None:
        """Release everything."""


#: What became of a run that was to be removed: ``live`` ones stay.
Removal = Literal["removed", "live", "absent"]


class RunHead(Struct, frozen=True):
    """A stored run, without its nodes.

    Args:
        status: ``running`` until the run has ended in order.
        live: whether its process is still at work, wherever that is.
    """

    run_id: str
    status: str
    live: bool = False


class RunStore(Protocol):
    """Past runs of one project, for every machine that has it. What is written is seen whole or not at all.

    A document is what ``run_results.json`` holds. Every write may be given again after a fault: what is stored already
    stays as it is. All methods raise :class:`~pz_core.errors.PzError`, PZ0518 if the store cannot be reached.
    """

    def describe(self) -> str:
        """Where the runs are, in a word or two, such as ``pz.runs``."""

    def identity(self) -> str:
        """A text that only this store has, and that tells nobody where it is; a digest will do."""

    def begin(self, document: Mapping[str, Any]) -> None:
        """Store a run that starts, and show others that it lives until :meth:`end`, or until this process is gone."""

    def add(self, run_id: str, first: int, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Store nodes that have ended, the first of them at position ``first`` of the run's nodes."""

    def end(self, document: Mapping[str, Any]) -> None:
        """Store the whole of a run that has ended, whatever was stored of it before."""

    def add_events(self, run_id: str, first: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Store events, as the stream has them, the first of them as number ``first``."""

    def heads(self) -> Sequence[RunHead]:
        """All runs of the project, newest first."""

    def documents(self, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The documents of runs, by id; those that are not there are left out."""

    def remove(self, run_id: str) -> Removal:
        """Remove a run whole, with its nodes and events, unless it lives."""


@runtime_checkable
class KeepsRuns(Protocol):
    """A state backend that can hold runs, too."""

    def run_store(self) -> RunStore:
        """The runs; they use the connection of the backend and end with it."""

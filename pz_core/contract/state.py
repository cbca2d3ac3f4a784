"""The contract of a state backend: compare-and-set on keyed entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pz_core.values import Value


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A stored entry: its payload, and a version that changes with every write."""

    payload: Mapping[str, Value]
    version: str


@dataclass(frozen=True, slots=True)
class StateScope:
    """A named section of the store: ``watermarks``, ``sync-state``, ``schemas``."""

    name: str


class StateBackend(Protocol):
    """Where a project remembers what it has read. The class is what a registration's target names."""

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

"""Records that keep some of their fields to themselves."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class Discreet(Struct, frozen=True):
    """A record whose ``repr`` leaves out ``kept``: what may hold a credential, or is too long to read."""

    kept: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        """The class's name and the fields that may be shown."""
        shown = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__struct_fields__ if n not in self.kept)
        return f"{type(self).__name__}({shown})"

"""Records that keep some of their fields to themselves."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct


class Discreet(Struct, frozen=True):
    """A record that does not show ``kept``: what may hold a credential, or is too long to read.

    A class that is made from it keeps its own and its parent's.
    """

    kept: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        """The class's name and the fields that may be shown."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The fields that may be shown, as rich asks for them."""
        kept = frozenset[str]().union(*(vars(each).get("kept", ()) for each in type(self).__mro__))
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in kept]

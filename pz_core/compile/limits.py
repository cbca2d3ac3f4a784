"""How much one render may do: turns, text and entries, counted over all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pz_core.compile.faults import Fault
from pz_core.compile.operations import is_list

#: Loop turns of one render, over all loops and nesting.
MAX_TURNS = 10_000
#: Characters that one render may make: its output, and every text made on the way.
MAX_TEXT = 16_000_000
#: Entries of lists and mappings that one render may make or search.
MAX_ITEMS = 250_000


class LimitReached(Fault):
    """A limit of the whole render was reached: the render ends."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message, line, hint="move the work into SQL")


class Budget:
    """What is spent so far; ``line`` is where the render stands."""

    def __init__(self) -> None:
        self.line = 1
        self._turns = self._text = self._items = 0

    def turn(self) -> None:
        """Take a turn of a loop."""
        self._turns += 1
        if self._turns > MAX_TURNS:
            raise LimitReached(f"the loops of this template take more than {MAX_TURNS} turns", self.line)

    def text(self, characters: int) -> None:
        """Make a text of so many characters."""
        self._text += characters
        if self._text > MAX_TEXT:
            raise LimitReached(f"this template makes more than {MAX_TEXT} characters", self.line)

    def items(self, items: int) -> None:
        """Make or walk a list of so many entries."""
        self._items += items
        if self._items > MAX_ITEMS:
            raise LimitReached(f"this template makes lists of more than {MAX_ITEMS} entries", self.line)

    def weigh(self, value: Any) -> None:
        """Pay for all that hangs below a list or mapping, shared or not."""
        todo = [value]
        while todo:
            at = todo.pop()
            if isinstance(at, Mapping):
                self.items(len(at) + 1)
                todo.extend(at.values())
            elif is_list(at):
                self.items(len(at) + 1)
                todo.extend(at)
            elif isinstance(at, str):
                self.items(len(at) // 64)

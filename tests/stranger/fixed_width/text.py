"""Fields as text: escaped, padded to a width, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pz_core.contract import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

#: Word of ``columns:`` -> Arrow's name of the type; others have no exact text here.
ARROW = {
    "varchar": "string", "bigint": "int64", "int": "int32", "smallint": "int16", "boolean": "bool", "date": "date32",
}  # fmt: skip
_NULL = "\\N"
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_BACK = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\s": " "}
_ESCAPED = re.compile(r"\\.")


@dataclass(frozen=True, slots=True)
class Layout:
    """The file of an entity and the width of its columns."""

    subject: str
    file: Path
    width: int

    def line(self, fields: list[str | None], columns: list[str], row: int) -> str:
        """A row as a line.

        Raises:
            ConnectorError: PZ0812 for a field that is wider than its column.
        """
        made = [_escaped(field) for field in fields]
        for column, text in zip(columns, made, strict=True):
            if len(text) > self.width:
                where = f"row {row}" if row else "the line of names"
                raise ConnectorError(
                    f"{self.subject}: column '{column}' needs more than {self.width} characters in {where}",
                    code="PZ0812",
                    hint="give the entity a greater width",
                )
        return "".join(text.ljust(self.width) for text in made) + "\n"

    def fields(self, line: str, count: int | None, row: int) -> list[str | None]:
        """A line as fields.

        Raises:
            ConnectorError: PZ0353 for a line of another length than the first one.
        """
        line = line.removesuffix("\n")
        parts, rest = divmod(len(line), self.width)
        if rest or (count is not None and parts != count):
            where = f"row {row}" if row else "the line of names"
            raise ConnectorError(
                f"{self.subject}: {where} is not made of columns of {self.width} characters",
                code="PZ0353",
                hint="correct width: of the read, or the file",
            )
        return [_unescaped(line[at * self.width : (at + 1) * self.width].rstrip(" ")) for at in range(parts)]


def arrow_type(word: str) -> pa.DataType:
    """The Arrow type of a word of ``columns:``."""
    import pyarrow as pa

    return pa.type_for_alias(ARROW[word])


def _escaped(text: str | None) -> str:
    if text is None:
        return _NULL
    made = "".join(_ESCAPES.get(character, character) for character in text)
    return f"{made[:-1]}\\s" if made.endswith(" ") else made


def _unescaped(text: str) -> str | None:
    if text == _NULL:
        return None
    return _ESCAPED.sub(lambda found: _BACK.get(found[0], found[0]), text)

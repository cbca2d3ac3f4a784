"""Refusals that arise inside DuckDB: generated SQL stops with a coded text, and whoever ran it reads the code back.

So a guard can live in the one statement that moves the rows, and still fail under a code of its own.
"""

from __future__ import annotations

import re

from pz_core.contract.connector import ConnectorError
from pz_core.values import quote_literal

_MARK = "pz-refusal"
_SHAPE = re.compile(rf"{_MARK}\[(PZ\d{{4}})\]\[(.*?)\]\[(.*?)\]{_MARK}", re.DOTALL)


def refusal(code: str, message: str, hint: str = "''") -> str:
    """A SQL expression that stops the statement with a coded fault.

    Args:
        code: such as ``PZ0812``.
        message: a SQL expression of type text that yields no value of the data.
        hint: the same for the way out.
    """
    opening, closing = quote_literal(f"{_MARK}[{code}]["), quote_literal(f"]{_MARK}")
    return f"error({opening} || {message} || '][' || {hint} || {closing})"


def read_refusal(text: str) -> ConnectorError | None:
    """The coded fault in the text of a DuckDB error, or ``None`` if it holds none."""
    found = _SHAPE.search(text)
    if found is None:
        return None
    return ConnectorError(found[2], code=found[1], hint=found[3] or None)


#: What a guard stops a statement with. It is for whoever ran the statement and never reaches a user.
_TRIP = "pz-guard-tripped"


def trip() -> str:
    """A SQL expression that stops the statement because a value is not what a sample had promised.

    Whoever runs a guarded scan then asks its source to settle it: see
    :class:`~pz_core.contract.connector.SettlingSource`.
    """
    return f"error({quote_literal(_TRIP)})"


def is_trip(text: str) -> bool:
    """Whether the text of a DuckDB error is that of a tripped guard."""
    return _TRIP in text

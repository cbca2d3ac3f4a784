"""Reading the body of a check entry: what the checks of the core have in common.

A body is whatever YAML gave. Everything wrong with it is told at once, in one :class:`CheckFault`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pz_core.contract.check import CheckFault
from pz_core.values import Value, quote_identifier

#: Alias of the checked relation. Columns are always qualified with it: a bare name that no column has could
#: otherwise mean the relation itself, and the check would pass on something that nobody asked about.
RELATION = quote_identifier("pz checked")


_NAME_SCHEMA: dict[str, Any] = {"type": "string", "pattern": r"\S"}
_NAMES_SCHEMA: dict[str, Any] = {"type": "array", "items": _NAME_SCHEMA, "minItems": 1}


def mapping_schema(
    required: Iterable[str] = (), *, column: bool = False, **options: Mapping[str, Any]
) -> dict[str, Any]:
    """JSON Schema of a body that is a mapping.

    Args:
        required: options that must be there.
        column: whether it looks at one column, named by ``column`` or as the one item of ``columns``.
        options: schema of each option.
    """
    made: dict[str, Any] = {"type": "object", "properties": dict(options), "additionalProperties": False}
    if column:
        made["properties"] = {"column": _NAME_SCHEMA, "columns": {**_NAMES_SCHEMA, "maxItems": 1}, **options}
        made["oneOf"] = [{"required": ["column"]}, {"required": ["columns"]}]
    if required:
        made["required"] = list(required)
    return made


#: JSON Schema of a body that names columns and nothing else.
KEYS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _NAMES_SCHEMA,
        {
            "type": "object",
            "properties": {"column": _NAME_SCHEMA, "columns": _NAMES_SCHEMA},
            "oneOf": [{"required": ["column"]}, {"required": ["columns"]}],
            "additionalProperties": False,
        },
    ]
}


def column_sql(name: str) -> str:
    """A column of the checked relation, quoted and qualified."""
    return f"{RELATION}.{quote_identifier(name)}"


def from_sql(relation: str) -> str:
    """The FROM clause that gives the relation its alias."""
    return f"FROM {relation} AS {RELATION}"


class BodyReader:
    """Takes a mapping apart and remembers what is wrong with it.

    Args:
        body: the body of the entry.
        options: names that the check knows, besides its columns.
        columns: whether the check looks at columns (``column`` or ``columns``).
        needs: what to say of a body that is no mapping.
    """

    def __init__(self, body: Value | None, options: Iterable[str], *, columns: bool, needs: str) -> None:
        if not isinstance(body, Mapping):
            raise CheckFault(f"needs {needs}")
        self.faults: list[str] = []
        self._body = body
        known = [*(("column", "columns") if columns else ()), *options]
        for name in body:
            if name not in known:
                self.faults.append(f"unknown option '{name}' (known: {', '.join([*known, 'sample_values'])})")

    def get(self, name: str) -> Value | None:
        """The value of an option, ``None`` where it is not written."""
        return self._body.get(name)

    def fault(self, text: str) -> None:
        """Remember a fault."""
        self.faults.append(text)

    def columns(self, *, one: bool) -> tuple[str, ...]:
        """The columns, from ``column`` or ``columns``; empty (and a fault remembered) where they are malformed."""
        single, several = "column" in self._body, "columns" in self._body
        if single and several:
            self.fault("has both 'column' and 'columns'; write one of them")
            return ()
        if single:
            name = self._body["column"]
            if not _is_name(name):
                self.fault("option 'column' must be one column name, as text")
                return ()
            return (str(name),)
        if not several:
            self.fault("needs option 'column'" if one else "needs at least one column (a list, or option 'columns')")
            return ()
        names, fault = _names(self._body["columns"], "option 'columns'")
        if fault is None and one and len(names) != 1:
            fault = f"looks at exactly one column, option 'columns' lists {len(names)}"
        if fault is not None:
            self.fault(fault)
            return ()
        return names

    def done(self) -> None:
        """Raise what was found.

        Raises:
            CheckFault: with all faults in one text.
        """
        if self.faults:
            raise CheckFault("; ".join(self.faults))


def key_columns(body: Value | None) -> tuple[str, ...]:
    """The columns of a check that takes nothing else: a list, or a mapping with ``column`` or ``columns``.

    Raises:
        CheckFault: if there are none or the body holds something else.
    """
    if isinstance(body, Mapping):
        reader = BodyReader(body, (), columns=True, needs="")
        names = reader.columns(one=False)
        reader.done()
        return names
    if body is None or isinstance(body, (str, int, float, bool)):
        raise CheckFault("needs a list of columns, such as [id]")
    names, fault = _names(body, "the list of columns")
    if fault is not None:
        raise CheckFault(fault)
    return names


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _names(value: Value, subject: str) -> tuple[tuple[str, ...], str | None]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (), f"{subject} must be a list of column names"
    if not value:
        return (), f"{subject} is empty; it needs at least one column"
    if not all(_is_name(item) for item in value):
        return (), f"{subject} must hold column names as text; quote those that look like numbers"
    return tuple(str(item) for item in value), None

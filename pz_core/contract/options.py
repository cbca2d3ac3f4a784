"""Options that a plugin declares once; validation, JSON Schema and reference page are made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from pz_core.values import Value

OptionType = Literal["string", "integer", "number", "boolean", "list", "mapping", "any"]

#: A longer text is cut in messages.
_LONGEST_SHOWN = 60

#: Keys of a connection that are pz's own; a connector that declares one is refused (PZ0345).
RESERVED_CONNECTION_KEYS: tuple[str, ...] = ("connector", "entities", "max_concurrency", "rate_limit", "retry")


class Option(Struct, frozen=True):
    """One option of a connector, a strategy or a check.

    Args:
        name: the key in YAML and at the call.
        type: of the value; ``list`` is a list of texts, ``string`` takes a plain number too (its text is used).
        summary: one line of documentation.
        required: whether it must be given.
        default: documented default, as it would be written; not filled in by pz.
        choices: the allowed values, for a closed set.
        minimum, maximum: bounds of a number, both inclusive.
        secret: whether the value is wrapped in a :class:`~pz_core.contract.secrets.Secret`.
    """

    name: str
    type: OptionType
    summary: str
    required: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    secret: bool = False

    def schema(self) -> dict[str, Any]:
        """This option as JSON Schema.

        A default that is a value of the option stands as ``default``; one in words stands in the description.
        """
        made: dict[str, Any] = {"description": self.summary}
        if self.type == "list":
            made.update(type="array", items={"type": "string"})
        elif self.type == "mapping":
            made["type"] = "object"
        elif self.type == "string":
            made["type"] = ["string", "number"]
        elif self.type != "any":
            made["type"] = self.type
        if self.choices:
            made["enum"] = [self._read(choice) for choice in self.choices]
        if self.minimum is not None:
            made["minimum"] = self.minimum
        if self.maximum is not None:
            made["maximum"] = self.maximum
        if self.default is not None:
            value = self._read(self.default)
            plain = self.default in self.choices or not isinstance(value, str)
            made.update({"default": value} if plain else {"description": f"{self.summary} (default: {self.default})"})
        return made

    def _read(self, text: str) -> Value:
        """A documented value as the option's type has it; the text itself where it is no such value."""
        if self.type == "boolean" and text in ("true", "false"):
            return text == "true"
        try:
            if self.type == "integer":
                return int(text)
            return float(text) if self.type == "number" else text
        except ValueError:
            return text

    def fault(self, value: Value, *, shown: bool = True) -> str | None:
        """What is wrong with a value, in words that follow the option's name; never the value of a secret.

        Args:
            value: what the user wrote.
            shown: whether it may stand in the message; a connection's may not, since it may hold a credential.
        """
        got = "" if self.secret else f", got {_shown(value) if shown else _kind(value)}"
        if not _fits(self.type, value):
            return f"must be {_WORDS[self.type]}{got}"
        if self.choices and str(value) not in self.choices:
            return f"must be one of {', '.join(self.choices)}{got}"
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                return f"must be at least {self.minimum}{got}"
            if self.maximum is not None and value > self.maximum:
                return f"must be at most {self.maximum}{got}"
        return None


_WORDS: dict[str, str] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list of texts",
    "mapping": "a mapping",
    "any": "a value",
}


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def _shown(value: Value) -> str:
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return f"{value[:_LONGEST_SHOWN]!r}…"
    return repr(value) if isinstance(value, (str, int, float)) else _kind(value)


def _fits(kind: OptionType, value: Value) -> bool:
    if kind == "any":
        return True
    if kind == "string":
        return isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "list":
        return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(v, str) for v in value)
    return isinstance(value, Mapping)


class OptionSet(Struct, frozen=True):
    """The options of one place (connection, read side, write side, strategy, check)."""

    options: tuple[Option, ...] = ()

    def names(self) -> tuple[str, ...]:
        """The declared names, in the order of declaration."""
        return tuple(o.name for o in self.options)

    def get(self, name: str) -> Option | None:
        """The option of that name, if it is declared."""
        return next((o for o in self.options if o.name == name), None)

    def faults(self, values: Mapping[str, Value], *, known: Iterable[str] = (), shown: bool = True) -> tuple[str, ...]:
        """Everything wrong with a mapping of values, one text a fault, each naming its option.

        Args:
            values: what the user wrote.
            known: further names that are no fault here (owned by pz or by a strategy).
            shown: whether values may stand in the texts, as for :meth:`Option.fault`.
        """
        found: list[str] = []
        for option in self.options:
            if option.required and option.name not in values:
                found.append(f"option '{option.name}' is required")
        allowed = {*self.names(), *known}
        for name, value in values.items():
            option_or_none = self.get(name)
            if option_or_none is None:
                if name not in allowed:
                    found.append(f"unknown option '{name}'")
                continue
            fault = option_or_none.fault(value, shown=shown)
            if fault:
                found.append(f"option '{name}' {fault}")
        return tuple(found)

    def json_schema(self) -> dict[str, Any]:
        """The set as a JSON Schema of an object."""
        return {
            "type": "object",
            "properties": {o.name: o.schema() for o in self.options},
            "required": [o.name for o in self.options if o.required],
            "additionalProperties": False,
        }


def option_set(*options: Option) -> OptionSet:
    """Declare a set of options."""
    return OptionSet(options)

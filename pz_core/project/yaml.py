"""YAML as pz reads it: PyYAML's parser, our own typing, and a line for every key and value.

Only plain scalars are typed, and only as 64-bit integers, floats and exactly ``true`` and ``false``. Everything else
(``off``, ``No``, dates, times, leading zeros, underscores, ``null``, ``~``) stays the text it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Union

from msgspec import Struct, field
from yaml.error import MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from pz_core.errors import Problems, PzError, Where
from pz_core.project.reading import read_file
from pz_core.values import Scalar, Value

#: A document with more values than this, aliases spelled out, is refused.
MAX_VALUES = 1_000_000
#: A document nested deeper than this is refused.
MAX_DEPTH = 100

_PLAIN = "plain"
_TEXT = "text"
_TEXT_TAGS = (_TEXT, "tag:yaml.org,2002:str")
_COLLECTION_TAGS = (_PLAIN, _TEXT, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

#: A NUL ends a text early wherever C reads it, DuckDB's parser included: the rest would be lost without a word.
_NUL = ("a text has an escape for a NUL character", "write the text without it")

_INTEGER = re.compile(r"-?[1-9][0-9]*|0")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|-?(?:0|[1-9][0-9]*)[eE][-+]?[0-9]+")
_SPECIAL = {".inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}


class Text(NamedTuple):
    """A scalar as written. (A tuple, because a large project makes tens of thousands of them.)

    Args:
        line: 1-based.
        text: its content, quotes and escapes resolved.
        plain: whether it was written without quotes and is no block scalar.
        literal: whether it is a ``|`` block, each line of which is a line of the file.
    """

    line: int
    text: str
    plain: bool
    literal: bool = False

    @property
    def value(self) -> Scalar:
        """The typed value of a plain scalar, the text of any other."""
        return typed(self.text) if self.plain else self.text

    @property
    def blank(self) -> bool:
        """Whether nothing was written, which means the default where a mapping or a list is looked for."""
        return self.plain and self.text in ("", "~", "null")


class Items(Struct, frozen=True):
    """A sequence."""

    line: int
    items: tuple[Node, ...]

    @property
    def blank(self) -> bool:
        """Never: an empty list was written."""
        return False


class Field(NamedTuple):
    """A key of a mapping with its value; ``line`` is the key's."""

    key: str
    line: int
    node: Node


class Block(Struct, frozen=True):
    """A mapping, in the order of the file."""

    line: int
    fields: Mapping[str, Field] = field(default_factory=dict)

    @property
    def blank(self) -> bool:
        """Never: an empty mapping was written."""
        return False

    def get(self, key: str) -> Node | None:
        """The value of a key, if the key is there."""
        found = self.fields.get(key)
        return None if found is None else found.node

    def line_of(self, key: str) -> int:
        """Line of a key, or of the mapping where the key is absent."""
        found = self.fields.get(key)
        return self.line if found is None else found.line


Node = Union[Text, Items, Block]


def typed(text: str) -> Scalar:
    """The value that a plain scalar has."""
    if text == "true":
        return True
    if text == "false":
        return False
    if _INTEGER.fullmatch(text):
        number = int(text) if len(text) <= 20 else 2**64
        return number if -(2**63) <= number < 2**63 else text
    if _FLOAT.fullmatch(text):
        made = float(text)
        return text if math.isinf(made) else made
    return _SPECIAL.get(text, text)


def printed(value: Scalar) -> str:
    """A scalar as YAML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def to_value(node: Node) -> Value:
    """A node as plain data, scalars typed."""
    if isinstance(node, Text):
        return node.value
    if isinstance(node, Items):
        return [to_value(item) for item in node.items]
    return {key: to_value(entry.node) for key, entry in node.fields.items()}


def to_text(node: Node) -> Value:
    """A node as plain data, every scalar the text it was written as."""
    if isinstance(node, Text):
        return node.text
    if isinstance(node, Items):
        return [to_text(item) for item in node.items]
    return {key: to_text(entry.node) for key, entry in node.fields.items()}


def read_yaml(path: Path, file: str, problems: Problems) -> Block | None:
    """Read a file whose root is a mapping; an empty file is an empty one.

    Args:
        path: where the file is.
        file: what messages call it.
        problems: gets PZ0101 with the line of each fault.

    Returns:
        The mapping, also when keys were repeated (the first one stands); ``None`` if the file cannot be used at all.
    """
    try:
        data = read_file(path)
    except OSError as error:
        problems.error("PZ0101", f"{file} cannot be read: {error.strerror or type(error).__name__}", where=Where(file))
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.error(
            "PZ0101", f"{file} is not UTF-8 text", where=Where(file, line), hint="save the file with the encoding UTF-8"
        )
        return None
    return parse_yaml(text, file, problems)


def parse_yaml(text: str, file: str, problems: Problems) -> Block | None:
    """Like :func:`read_yaml`, for a text."""
    try:
        node = _compose(text)
    except YAMLError as error:
        problems.add(_unparsable(error, text, file))
        return None
    except RecursionError:
        problems.add(_too_deep(file, 1))
        return None
    if node is None:
        return Block(1)
    try:
        made = _Builder(file, problems).build(node)
    except PzError as error:
        problems.add(error)
        return None
    if made.blank:
        return Block(made.line)
    if not isinstance(made, Block):
        problems.error(
            "PZ0101",
            f"{file} does not hold a mapping of keys to values",
            where=Where(file, made.line),
            hint="write 'key: value' lines at the left edge",
        )
        return None
    return made


class _Resolver:
    """Says of a scalar whether it was plain, instead of guessing a type."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is not ScalarNode:
            return _PLAIN
        return _PLAIN if implicit[0] else _TEXT

    def descend_resolver(self, *_: Any) -> None:
        """Paths select no types here."""

    def ascend_resolver(self) -> None:
        """Paths select no types here."""


def _loader() -> type[Any]:
    try:
        from yaml._yaml import CParser

        class Fast(_Resolver, CParser):
            """libyaml's parser, which reads a thousand sidecars in a tenth of a second."""

            def __init__(self, text: str) -> None:
                CParser.__init__(self, text)

        return Fast
    except ImportError:  # PyYAML was built without libyaml
        from yaml.composer import Composer
        from yaml.parser import Parser
        from yaml.reader import Reader
        from yaml.scanner import Scanner

        class Portable(Reader, Scanner, Parser, Composer, _Resolver):
            """The same in pure Python."""

            def __init__(self, text: str) -> None:
                Reader.__init__(self, text)
                Scanner.__init__(self)
                Parser.__init__(self)
                Composer.__init__(self)

            resolve = _Resolver.resolve
            descend_resolver = _Resolver.descend_resolver
            ascend_resolver = _Resolver.ascend_resolver

        return Portable


_LOADER: list[type[Any]] = []


def _compose(text: str) -> Any:
    if not _LOADER:
        _LOADER.append(_loader())
    loader = _LOADER[0](text)
    try:
        return loader.get_single_node()
    finally:
        if hasattr(loader, "dispose"):
            loader.dispose()


def _unparsable(error: YAMLError, text: str, file: str) -> PzError:
    line: int | None = None
    what = "is no YAML"
    hint = "check indentation, colons, brackets and quotes at this line"
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        what = f"{error.problem or error.context}"
        if "nesting depth" in what:
            return _too_deep(file, line or 1)
        if "another document" in what:
            what, hint = (
                "it holds more than one document",
                "keep one document; remove the '---' line and what follows it",
            )
        elif "cannot start any token" in what:
            hint = "indent with spaces, not tabs, and quote a value that begins with a sign such as @, ` or %"
        elif "mapping values are not allowed" in what:
            hint = "quote a value that holds ': ', and check the indentation"
    else:
        position = getattr(error, "position", None)
        if isinstance(position, int):
            line = text.count("\n", 0, position) + 1
        what, hint = (
            "it holds a control character",
            "remove the character, or write it as an escape between double quotes",
        )
    return PzError("PZ0101", f"{file} cannot be read as YAML: {what}", where=Where(file, line), hint=hint)


def _too_deep(file: str, line: int) -> PzError:
    return PzError(
        "PZ0101",
        f"{file} is nested deeper than {MAX_DEPTH} levels",
        where=Where(file, line),
        hint="flatten the nested lists and mappings",
    )


class _Builder:
    """Turns PyYAML's nodes into ours, each aliased node once."""

    def __init__(self, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._made: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()

    def build(self, root: Any) -> Node:
        made, size = self._build(root, 0)
        if size > MAX_VALUES:
            raise self._fault(
                root, f"its aliases spell out to more than {MAX_VALUES} values", "write fewer nested aliases"
            )
        return made

    def _build(self, node: Any, depth: int) -> tuple[Node, int]:
        if isinstance(node, ScalarNode):
            return self._scalar(node), 1
        key = id(node)
        known = self._made.get(key)
        if known is not None:
            return known
        if depth > MAX_DEPTH:
            raise _too_deep(self._file, node.start_mark.line + 1)
        if key in self._open:
            raise self._fault(node, "an alias (*) stands inside the value that it names", "spell the value out")
        self._open.add(key)
        result: tuple[Node, int]
        if node.tag not in _COLLECTION_TAGS:
            raise self._tagged(node)
        if isinstance(node, SequenceNode):
            parts = [self._build(child, depth + 1) for child in node.value]
            result = Items(node.start_mark.line + 1, tuple(p for p, _ in parts)), 1 + sum(s for _, s in parts)
        else:
            result = self._mapping(node, depth)
        self._open.discard(key)
        self._made[key] = result
        return result

    def _scalar(self, node: ScalarNode) -> Text:
        tag, style = node.tag, node.style
        if "\0" in node.value:
            raise self._fault(node, *_NUL)
        if tag != _PLAIN and tag not in _TEXT_TAGS:
            raise self._tagged(node)
        return Text(node.start_mark.line + 1, node.value, tag == _PLAIN and not style, style == "|")

    def _mapping(self, node: MappingNode, depth: int) -> tuple[Block, int]:
        fields: dict[str, Field] = {}
        size = 1
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                raise self._fault(key, "a key is a list or a mapping", "quote a text that begins with { or [")
            name = key.value
            if "\0" in name:
                raise self._fault(key, *_NUL)
            if key.tag not in _TEXT_TAGS:
                if key.tag != _PLAIN:
                    raise self._tagged(key)
                if name == "<<" and not key.style:
                    raise self._fault(key, "merge keys (<<) are not read", "write the keys out where they are needed")
            if isinstance(value, ScalarNode):
                made: Node = self._scalar(value)
                size += 1
            else:
                made, made_size = self._build(value, depth + 1)
                size += made_size
            if name in fields:
                self._problems.error(
                    "PZ0101",
                    f"key '{name}' is repeated; it stands first at line {fields[name].line}",
                    where=Where(self._file, line),
                    hint="keep one of the two",
                )
                continue
            fields[name] = Field(name, line, made)
        return Block(node.start_mark.line + 1, fields), size

    def _tagged(self, node: Any) -> PzError:
        return self._fault(node, "type tags (!…) are not read", "remove the tag; quote what must stay text")

    def _fault(self, node: Any, what: str, hint: str) -> PzError:
        where = Where(self._file, node.start_mark.line + 1)
        return PzError("PZ0101", f"{self._file} cannot be read: {what}", where=where, hint=hint)

"""Layouts that are read no more: ``outputs:`` blocks, ``sources/`` and ``sinks/`` directories (PZ0346).

The hint is the same content as a block of ``connections.yml``, in flow style on one line, to paste.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pz_core.errors import Problems, Where
from pz_core.project.yaml import Block, Node, Text, read_yaml, to_text, to_value, typed
from pz_core.values import Value

Direction = Literal["read", "write"]

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./*$%+@=-]*(?: [A-Za-z0-9_./*$%+@=-]+)*")
_SECRET = re.compile(
    r"passw|pwd|secret|token|api_?key|access_?key|private|credential|connection_?string|dsn|auth|sas", re.I
)
_USERINFO = re.compile(r"://[^/@\s]*:[^/@\s]*@|(?:password|pwd)\s*=", re.I)


def refuse_outputs(block: Block, file: str, problems: Problems) -> None:
    """Refuse a top-level ``outputs:`` block."""
    pasted: dict[str, Value] = {}
    node = block.get("outputs")
    if isinstance(node, Block):
        for name, entry in node.fields.items():
            key, value = _output(name, entry.node)
            _merge(pasted, key, value)
    hint = "delete outputs: and write into connections.yml: "
    hint += " ".join(f"{_flow(k)}: {_flow(v)}" for k, v in pasted.items()) or "<name>: {connector: <connector>}"
    if len(pasted) > 1:
        hint = "delete outputs: and write into connections.yml, each on a line of its own: " + "; ".join(
            f"{_flow(k)}: {_flow(v)}" for k, v in pasted.items()
        )
    problems.error(
        "PZ0346",
        f"{file} holds a block outputs:, which is not read any more",
        where=Where(file, block.line_of("outputs")),
        hint=hint,
    )


def refuse_directories(root: Path, problems: Problems) -> None:
    """Refuse every ``*.yml`` in ``sources/`` and ``sinks/``."""
    for folder, direction in (("sources", "read"), ("sinks", "write")):
        directory = root / folder
        if not directory.is_dir():
            continue
        for path in sorted(directory.glob("*.yml")):
            file = f"{folder}/{path.name}"
            silent = Problems()
            block = read_yaml(path, file, silent)
            if block is None:
                hint = "repair the file, then move what it says into connections.yml"
            else:
                name, body = _place(path.stem, block, "read" if direction == "read" else "write")
                hint = f"delete the file and write into connections.yml: {_flow(name)}: {_flow(body)}"
            problems.error(
                "PZ0346",
                f"{file}: the directory {folder}/ is not read any more; connections.yml holds every place",
                where=Where(file),
                hint=hint,
            )


def _place(stem: str, block: Block, direction: Direction) -> tuple[str, Value]:
    """A file of ``sources/`` or ``sinks/`` as a connection."""
    head, items = ("source", "datasets") if direction == "read" else ("sink", "outputs")
    name = _text(block.get(head)) or _text(block.get("name")) or stem
    made: dict[str, Value] = {"connector": _text(block.get("connector")) or "<connector>"}
    for key, entry in block.fields.items():
        if key in (head, "name", "connector", items):
            continue
        if key in ("connection", "config") and isinstance(entry.node, Block):
            made |= {k: to_value(e.node) for k, e in entry.node.fields.items()}
        else:
            made[key] = to_value(entry.node)
    entities: dict[str, Value] = {}
    listed = block.get(items)
    if isinstance(listed, Block):
        for entity, entry in listed.fields.items():
            renamed, body = _side(entity, entry.node, direction)
            entities[renamed] = {direction: body}
    if entities:
        made["entities"] = entities
    return name, _masked(name, made)


def _output(name: str, node: Node) -> tuple[str, Value]:
    """A child of ``outputs:``: a whole connection, or the write side of an entity of one."""
    if not isinstance(node, Block):
        return name, {"connector": "<connector>"}
    owner = _text(node.get("connection")) or _text(node.get("sink"))
    if owner:
        rest = Block(node.line, {k: e for k, e in node.fields.items() if k not in ("connection", "sink")})
        renamed, body = _side(name, rest, "write")
        return owner, _masked(owner, {"entities": {renamed: {"write": body}}})
    return _place(name, node, "write")


def _side(entity: str, node: Node, direction: Direction) -> tuple[str, Value]:
    """The options of one side with retired keys put into today's words."""
    if not isinstance(node, Block):
        return entity, {}
    body = {key: to_value(entry.node) for key, entry in node.fields.items()}
    schema, table = body.pop("schema", None), body.pop("table", None)
    qualifier, _, last = entity.rpartition(".")
    parts = (str(schema or qualifier), str(table or last))
    entity = ".".join(part for part in parts if part)
    body.pop("input", None)
    if direction == "write":
        if "mode" in body:
            body["strategy"] = body.pop("mode")
        if body.pop("accept_duplicates", None) is True:
            body["duplicates"] = "accept"
    old = node.get("incremental")
    if old is not None:
        body.pop("incremental", None)
        body["sync"] = {"mode": "incremental", **_mapping(to_text(old))}
    return entity, body


def _mapping(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, Mapping) else {"cursor": value}


def _merge(into: dict[str, Value], key: str, value: Value) -> None:
    known = into.get(key)
    if isinstance(known, dict) and isinstance(value, Mapping):
        for name, item in value.items():
            _merge(known, name, item)
    else:
        into[key] = dict(value) if isinstance(value, Mapping) else value


def _masked(owner: str, value: Value, key: str = "") -> Value:
    """The same data with literal secrets replaced by references, so that a hint shows none."""
    if isinstance(value, Mapping):
        return {k: _masked(owner, v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_masked(owner, v, key) for v in value]
    text = value if isinstance(value, str) else ""
    if (
        key
        and not text.startswith("${")
        and (_SECRET.search(key) or _USERINFO.search(text))
        and not isinstance(value, bool)
    ):
        return "${" + re.sub(r"[^A-Z0-9]+", "_", f"{owner}_{key}".upper()).strip("_") + "}"
    return value


def _text(node: Node | None) -> str:
    return node.text.strip() if isinstance(node, Text) and not node.blank else ""


def _flow(value: Value) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    if isinstance(value, str):
        if value.startswith("<") and value.endswith(">"):
            return value
        plain = _PLAIN.fullmatch(value) and isinstance(typed(value), str) and value not in ("null", "true", "false")
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)

"""Adds a package to ``connectors:`` or ``plugins:`` of ``project.yml`` and leaves every other byte of it alone."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from pz_core.errors import PzError, PzErrors, Where
from pz_core.project.packages_only import load_requirements
from pz_core.project.project_file import FILE

_BLOCK = r"^{key}:[ \t]*(?:#.*)?$"


def with_package(root: Path, key: str, package: str, version: str) -> str:
    """The text of ``project.yml`` with one package more; nothing is written.

    Args:
        root: the project's folder.
        key: ``connectors`` or ``plugins``.
        package: the name to list.
        version: the range to list, as text.

    Raises:
        PzError: PZ0101 if the list is not written in lines that can be added to; the hint is the line to add.
    """
    text = (root / FILE).read_bytes().decode("utf-8")
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(ending)
    start = next((i for i, line in enumerate(lines) if re.match(_BLOCK.format(key=key), line)), None)
    item = f'- {{package: {package}, version: "{version}"}}'
    if start is None:
        while lines and not lines[-1].strip():
            lines.pop()
        lines += ["", f"{key}:", f"  {item}", ""]
    else:
        last = start
        indent = None
        for i in range(start + 1, len(lines)):
            line = lines[i]
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not line.startswith((" ", "-")):
                break
            dash = re.match(r"(\s*)- ", line)
            indent = dash[1] if indent is None and dash else indent
            last = i
        lines.insert(last + 1, f"{'  ' if indent is None else indent}{item}")
    made = ending.join(lines)
    if not _adds(root, made, package):
        raise PzError(
            "PZ0101",
            f"{key}: is written in a way that {package} cannot be added to by itself",
            where=Where(FILE),
            hint=f"add to {key}: in project.yml: {item}, then run pz deps lock",
        )
    return made


def _adds(root: Path, text: str, package: str) -> bool:
    """Whether the changed file lists what it listed before, and the package."""
    before = {(item.name, item.specifier, item.isolation) for item in load_requirements(root)}
    with tempfile.TemporaryDirectory(prefix="pz-deps-") as name:
        (Path(name) / FILE).write_bytes(text.encode())
        try:
            after = {(item.name, item.specifier, item.isolation) for item in load_requirements(Path(name))}
        except PzErrors:
            return False
    from pz_core.plugins.registry import normalised

    return before < after and {item[0] for item in after - before} == {normalised(package)}

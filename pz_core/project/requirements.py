"""``connectors:`` and ``plugins:`` of ``project.yml``, and the versions that they and ``pz:`` ask for."""

from __future__ import annotations

import re

from pz_core.errors import Problems, Where
from pz_core.plugins.registry import normalised
from pz_core.project.model import PackageRequirement
from pz_core.project.shapes import did_you_mean, shown_node, unknown_keys
from pz_core.project.yaml import Block, Field, Items, Node, Text

#: What a distribution may be called.
PACKAGE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_GAP = re.compile(r"(?<=[A-Za-z0-9.*+!-])\s+(?=[<>=!~])")
_VERSION_HINT = 'write a version (2.1.4) or a range (">=1.0 <2.0")'


def specifier(text: str) -> str | None:
    """A version or a range as a PEP 440 specifier, or ``None`` if it is neither.

    ``2.1.4`` becomes ``==2.1.4``; parts may be parted by commas or by spaces.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    text = text.strip()
    try:
        return f"=={Version(text)}" if not text.startswith("==") else str(SpecifierSet(text))
    except (InvalidVersion, InvalidSpecifier):
        pass
    try:
        made = SpecifierSet(_GAP.sub(",", text))
    except InvalidSpecifier:
        return None
    return str(made) if len(made) else None


def satisfies(version: str, specifier_text: str) -> bool:
    """Whether a version is within a PEP 440 specifier."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier_text).contains(version, prereleases=True)


def read_requirements(entry: Field, file: str, problems: Problems) -> tuple[PackageRequirement, ...]:
    """The packages of one list; PZ0101 for each item that is malformed."""
    node = entry.node
    if node.blank:
        return ()
    if not isinstance(node, Items):
        problems.error(
            "PZ0101",
            f"{entry.key} must be a list of packages, got {shown_node(node)}",
            where=Where(file, entry.line),
            hint=f'write {entry.key}: [{{package: <name>, version: ">=1.0 <2.0"}}]',
        )
        return ()
    read = [_requirement(item, entry.key, number, file, problems) for number, item in enumerate(node.items, start=1)]
    return tuple(made for made in read if made is not None)


def _requirement(node: Node, key: str, number: int, file: str, problems: Problems) -> PackageRequirement | None:
    where = Where(file, node.line)
    lead = f"{key}, item {number}"
    if not isinstance(node, Block):
        written = node.text if isinstance(node, Text) and PACKAGE_NAME.fullmatch(node.text) else "<name>"
        problems.error(
            "PZ0101",
            f"{lead} must be a mapping with package and version, got {shown_node(node)}",
            where=where,
            hint=f'write - {{package: {written}, version: ">=1.0 <2.0"}}',
        )
        return None
    allowed = ("package", "version", "isolation") if key == "connectors" else ("package", "version")
    unknown_keys(node, allowed, code="PZ0101", what=lead, file=file, problems=problems)
    package = node.get("package")
    if not isinstance(package, Text) or not PACKAGE_NAME.fullmatch(package.text):
        got = "nothing" if package is None or package.blank else shown_node(package)
        problems.error(
            "PZ0101",
            f"{lead}: package must be the name of a distribution, got {got}",
            where=Where(file, node.line_of("package")),
            hint="write package: pz-connector-postgres, or another name that pip can install",
        )
        return None
    name = package.text
    version, text = _version(node, f"{key}: {name}", file, problems)
    isolation = node.get("isolation") if key == "connectors" else None
    process = isinstance(isolation, Text) and isolation.text == "process"
    if isolation is not None and not isolation.blank and not process:
        word = isolation.text if isinstance(isolation, Text) else ""
        problems.error(
            "PZ0306",
            f"{key}: {name}: isolation cannot be {shown_node(isolation)}",
            where=Where(file, node.line_of("isolation")),
            hint=f"{did_you_mean(word, ['process'])}write isolation: process, or remove it",
        )
    return PackageRequirement(name, normalised(name), version, text, where, "process" if process else None)


def _version(node: Block, lead: str, file: str, problems: Problems) -> tuple[str | None, str]:
    version = node.get("version")
    if version is None or version.blank:
        return None, ""
    where = Where(file, node.line_of("version"))
    if not isinstance(version, Text):
        problems.error(
            "PZ0101", f"{lead}: version must be a text, got {shown_node(version)}", where=where, hint=_VERSION_HINT
        )
        return None, ""
    if isinstance(version.value, float):
        problems.error(
            "PZ0101",
            f"{lead}: version {version.text} is an unquoted decimal number",
            where=where,
            hint=f'quote it: version: "{version.text}"',
        )
        return None, ""
    made = specifier(version.text)
    if made is None:
        problems.error(
            "PZ0101",
            f"{lead}: version {shown_node(version)} is neither a version nor a range",
            where=where,
            hint=_VERSION_HINT,
        )
        return version.text, ""
    return version.text, made


def refuse_two_versions(listed: tuple[PackageRequirement, ...], problems: Problems) -> None:
    """PZ0139 for each package that is listed with different versions; a note for one that is listed twice alike."""
    first: dict[str, PackageRequirement] = {}
    for requirement in listed:
        known = first.setdefault(requirement.name, requirement)
        if known is requirement:
            continue
        if known.specifier != requirement.specifier:
            problems.error(
                "PZ0139",
                f"{requirement.package} is listed twice: {known.version or 'any version'} (line {known.where.line}) "
                f"and {requirement.version or 'any version'}",
                where=requirement.where,
                hint="keep one entry; a project uses one version of a package",
            )
        else:
            problems.note(
                f"{requirement.package} is listed twice (first at line {known.where.line})", where=requirement.where
            )

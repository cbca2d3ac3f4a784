"""Says in plain words why no set of versions fits: which two requirements, and who has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from pz_core.errors import PzError, Where
from pz_core.packages.metadata import Described, requirements
from pz_core.packages.model import CORE, Wanted, readable
from pz_core.packages.uv import NoSolutionError
from pz_core.plugins.offers import normalised

_NAME = r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?"
_SPEC = r"(?:(?:==|>=|<=|!=|~=|<|>)[^\s,]+(?:,\s*(?:==|>=|<=|!=|~=|<|>)[^\s,]+)*)?"
_DEPENDS = re.compile(
    rf"(?:all versions of )?(?P<who>{_NAME})(?P<at>{_SPEC}) depends? on "
    rf"(?P<what>{_NAME})(?:\[[^\]]*\])?(?P<spec>{_SPEC})"
)
_ABSENT = re.compile(rf"(?P<name>{_NAME}) was not found")
_NO_VERSION = re.compile(rf"there (?:is|are) no versions? of (?P<name>{_NAME})(?P<spec>{_SPEC})")
_PYTHON = re.compile(r"Python(?P<spec>[<>=!~][^\s,]*)")


class _Need(Struct, frozen=True):
    """Somebody asks for a package."""

    name: str
    specifier: str
    who: str
    where: Where = Where()

    @property
    def words(self) -> str:
        return f"{self.who} needs {self.name}{_shown(self.specifier)}"


def unresolved(
    error: NoSolutionError, wanted: Sequence[Wanted], local: Sequence[Described], core: Described
) -> PzError:
    """The coded error for uv's reasons.

    Args:
        error: what uv said.
        wanted: what the projects list.
        local: packages that are locked by their folder.
        core: the running core.
    """
    needs = [*_listed(wanted), *_of_packages((*local, core)), *_of_others(error.reasons)]
    for first, second in combinations(needs, 2):
        if first.name == second.name and not _both(first.specifier, second.specifier):
            return _pz0320(f"{first.words}, {second.words}, and no version is both", (first, second), wanted)
    for need in needs:
        if need.name == CORE and not _fits(core.version, need.specifier):
            return _pz0320(f"{need.words}, and this is {CORE} {core.version}", (need,), wanted)
    for package in local:
        for need in needs:
            if need.name == package.name and not _fits(package.version, need.specifier):
                message = f"{need.words}, and {package.path} holds {package.name} {package.version}"
                return _pz0320(message, (need,), wanted)
    absent = _ABSENT.search(error.reasons)
    if absent is not None:
        asking = [need for need in needs if need.name == absent["name"]]
        who = f", and {asking[0].words}" if asking else ""
        place = "in the cache, and --offline forbids to ask the index" if error.offline else "on the package index"
        hint = (
            "leave out --offline, or name a folder that has the package with --find-links DIR"
            if error.offline
            else f"correct the name {absent['name']}, set pip or uv up with the index that has it, "
            "or name the folder that it is in: --local DIR for its source, --find-links DIR for its wheels"
        )
        return _pz0320(f"there is no package {absent['name']} {place}{who}", asking, wanted, hint)
    for need in needs:
        if re.search(rf"(?:only|no versions? of) {re.escape(need.name)}\b", error.reasons) and need.specifier:
            return _pz0320(f"{need.words}, and the package index has no version that fits", (need,), wanted)
    return PzError("PZ0320", f"no set of versions fits: {error.reasons}", where=_first(wanted), hint=_loosen(()))


def _pz0320(message: str, needs: Sequence[_Need], wanted: Sequence[Wanted], hint: str | None = None) -> PzError:
    placed = next((need.where for need in needs if need.where.file), None)
    return PzError("PZ0320", message, where=placed or _first(wanted), hint=hint or _loosen(needs))


def _loosen(needs: Sequence[_Need]) -> str:
    if any(need.where.file for need in needs):
        return "loosen the version in project.yml, or take other versions of the packages named"
    return "list another version of one of the packages under connectors: or plugins: in project.yml"


def _first(wanted: Sequence[Wanted]) -> Where:
    return wanted[0].where if len({item.project for item in wanted}) == 1 and len(wanted) == 1 else Where()


def _listed(wanted: Iterable[Wanted]) -> Iterator[_Need]:
    for item in wanted:
        yield _Need(item.name, item.specifier, f"{lister(item)}", item.where)


def lister(item: Wanted) -> str:
    """The words for the file that lists a package."""
    return "project.yml" if item.project == "." else f"{item.project}/project.yml"


def _of_packages(packages: Iterable[Described]) -> Iterator[_Need]:
    for package in packages:
        for required in requirements(package):
            yield _Need(normalised(required.name), str(required.specifier), f"{package.name} {package.version}")


def _of_others(reasons: str) -> Iterator[_Need]:
    seen: set[_Need] = set()
    for found in _DEPENDS.finditer(reasons):
        at = re.fullmatch(r"==([^\s,]+)", found["at"] or "")
        who = f"{found['who']} {at[1]}" if at else f"{found['who']}{_shown(found['at'])}"
        need = _Need(normalised(found["what"]), found["spec"].replace(" ", ""), who)
        if need not in seen:
            seen.add(need)
            yield need


def _shown(specifier: str | None) -> str:
    return f" {readable(specifier)}" if specifier else ""


def _fits(version: str, specifier: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True


def _both(first: str, second: str) -> bool:
    """Whether a version can satisfy both; tried at every bound, just above it and just below the lowest."""
    bounds = re.findall(r"[0-9][^\s,*]*", f"{first},{second}")
    probes = ["0", "99999", *bounds, *(f"{bound.rstrip('.')}.0.0.1" for bound in bounds)]
    return any(_fits(probe, first) and _fits(probe, second) for probe in probes if _is_version(probe))


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True

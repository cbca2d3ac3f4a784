"""From what projects list to the packages of a lock."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from pz_core.errors import Notice, PzError
from pz_core.packages.conflicts import unresolved
from pz_core.packages.metadata import Described, constraints, described, metadata_wheel, needed_by, needs_of_core
from pz_core.packages.model import CORE, MAIN, Lock, LockedFile, LockedPackage, Wanted
from pz_core.packages.uv import NoSolutionError, Uv, python
from pz_core.plugins.offers import normalised

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?:==|@)\s*[^;#]+(?:;(?P<marker>[^#]*))?(?:#\s*via (?P<via>.*))?")


class Request(Struct, frozen=True):
    """What to resolve.

    Args:
        wanted: what the projects list, of all environments.
        local: packages that are locked by their folder.
        core: the running core.
        python: lowest Python version, such as ``3.11``.
        earlier: the lock that stands now; its versions stay.
        upgrade: names whose version may change; ``None`` for all.
    """

    wanted: tuple[Wanted, ...]
    local: tuple[Described, ...]
    core: Described
    python: str
    earlier: Lock | None = None
    upgrade: frozenset[str] | None = frozenset()

    def stays(self, name: str) -> bool:
        """Whether a package keeps the version that is locked."""
        return self.upgrade is not None and name not in self.upgrade


def resolve(request: Request, environment: str, uv: Uv) -> tuple[tuple[LockedPackage, ...], tuple[Notice, ...]]:
    """The packages of one environment.

    Args:
        request: what is wanted.
        environment: ``main``, or an isolated package.
        uv: the resolver.

    Raises:
        PzError: PZ0320, PZ0327, PZ0328, PZ0329.
    """
    wanted = tuple(item for item in request.wanted if item.environment == environment)
    request = replace(request, local=_local_for(request, environment))
    earlier = () if request.earlier is None else request.earlier.packages(environment)
    with tempfile.TemporaryDirectory(prefix="pz-deps-") as name:
        work = Path(name).resolve()
        try:
            pins, found = _ask(request, wanted, earlier, uv, work)
        except NoSolutionError as error:
            raise unresolved(error, wanted, request.local, request.core) from error
        others = {CORE, *(package.name for package in request.local)}
        made = [_locked(entry, pins) for entry in found if entry["name"] not in others]
        made = [_with_known_files(package, earlier, stays=request.stays(package.name)) for package in made]
        asked_for = {item.name for item in wanted}
        plugins = [p for p in made if p.name in asked_for or CORE in p.requires]
        about, notices = _described(plugins, uv, work)
        points = {package.name: package.entry_points for package in about}
        made = [replace(package, entry_points=points.get(package.name, {})) for package in made]
        made += [_local(package, pins) for package in request.local]
        made.append(LockedPackage(CORE, range=needs_of_core((*about, *request.local))))
    return tuple(sorted(made, key=lambda package: (package.name, package.version, package.markers))), notices


def _local_for(request: Request, environment: str) -> tuple[Described, ...]:
    """The local packages of an environment: those it asks for and what they need; main has all that no other has."""
    names = {item.name for item in request.wanted if item.environment == environment}
    if environment == MAIN:
        names |= {package.name for package in request.local} - {item.name for item in request.wanted}
    while True:
        more = {needed for package in request.local if package.name in names for needed in needed_by(package)} - names
        if not more:
            return tuple(package for package in request.local if package.name in names)
        names |= more


# --- asking uv -------------------------------------------------------------------------------------------------------


class _Pin(Struct, frozen=True):
    """A line of uv's answer: a package, and the packages that need it."""

    name: str
    parents: frozenset[str]


def _ask(
    request: Request, wanted: Sequence[Wanted], earlier: Sequence[LockedPackage], uv: Uv, work: Path
) -> tuple[tuple[_Pin, ...], list[dict[str, Any]]]:
    """Resolve twice: the first answer says who needs what, the second, held to it, which files there are."""
    # What the core needs bounds what plugins may bring, and is no part of the lock: it comes with the core.
    bare = replace(request.core, requires=())
    known = [metadata_wheel(package, work) for package in (bare, *request.local)]
    bounds = work / "bounds.txt"
    bounds.write_text("".join(f"{line}\n" for line in constraints(request.core)), encoding="utf-8")
    names = [package.name for package in (request.core, *request.local)]
    lines = [f"{name} @ {path.as_uri()}" for name, path in zip(names, known, strict=True)]
    lines += sorted({f"{item.name}{item.specifier}" for item in wanted})
    source, pinned, pylock = work / "wanted.in", work / "pins.txt", work / "pylock.toml"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stay = [
        f"{package.name}=={package.version}" + (f" ; {package.markers}" if package.markers else "")
        for package in earlier
        if package.files and request.stays(package.name)
    ]
    pinned.write_text("\n".join(stay) + "\n", encoding="utf-8")
    common = ("pip", "compile", "--quiet", "--no-header", "--universal", "--python-version", request.python, *python())
    # An option outweighs its variable, so what uv is set up with is named again.
    bounding = (str(bounds), *uv.environ.get("UV_CONSTRAINT", "").split())
    common = (*common, *(part for path in bounding for part in ("--constraints", path)))
    uv(*common, "--annotation-style", "line", "-o", pinned, source)
    answer = pinned.read_text(encoding="utf-8")
    held = work / "held.txt"
    held.write_text("".join(f"{line}\n" for line in answer.splitlines() if " @ " not in line), encoding="utf-8")
    uv(*common, "--generate-hashes", "--constraints", held, "--format", "pylock.toml", "-o", pylock, source)
    packages = tomllib.loads(pylock.read_text(encoding="utf-8")).get("packages", [])
    return tuple(_pins(answer)), [{**entry, "name": normalised(entry["name"])} for entry in packages]


def _pins(answer: str) -> Iterable[_Pin]:
    for line in answer.splitlines():
        found = _PIN.match(line)
        if found is None:
            continue
        via = [part.strip() for part in (found["via"] or "").split(",")]
        parents = {normalised(part) for part in via if part and not part.startswith(("-r ", "-c "))}
        yield _Pin(normalised(found["name"]), frozenset(parents))


# --- making entries --------------------------------------------------------------------------------------------------


def _locked(entry: Mapping[str, Any], pins: Sequence[_Pin]) -> LockedPackage:
    name = entry["name"]
    sources = [*entry.get("wheels", ()), *([entry["sdist"]] if "sdist" in entry else ())]
    files = [LockedFile(_file_name(source), source.get("hashes", {}).get("sha256", "")) for source in sources]
    if not files or not all(file.sha256 for file in files):
        raise PzError(
            "PZ0320",
            f"{name} does not come as files of a package index with their sha256, so it cannot be locked",
            hint="list a release that an index offers; a package of this repository is locked with --local DIR",
        )
    requires = tuple(sorted({pin.name for pin in pins if name in pin.parents}))
    return LockedPackage(name, entry["version"], tuple(sorted(files)), entry.get("marker", ""), requires)


def _file_name(source: Mapping[str, Any]) -> str:
    if "name" in source:
        return str(source["name"])
    place = source.get("url") or source.get("path") or ""
    return unquote(urlsplit(place).path.replace("\\", "/").rpartition("/")[2])


def _with_known_files(package: LockedPackage, earlier: Sequence[LockedPackage], *, stays: bool) -> LockedPackage:
    """A version that stays keeps the files that were recorded: an index that has fewer or more of them is no news.

    Raises:
        PzError: PZ0327 if a file of the same name has other bytes now.
    """
    before = next((p for p in earlier if (p.name, p.version) == (package.name, package.version) and p.files), None)
    if before is None or not stays:
        return package
    recorded = {file.name: file.sha256 for file in before.files if file.name}
    changed = [file.name for file in package.files if recorded.get(file.name, file.sha256) != file.sha256]
    if changed:
        raise PzError(
            "PZ0327",
            f"{package.name} {package.version} was published again: {changed[0]} has other bytes than were locked",
            hint=f"find out why before you trust it; pz deps lock --upgrade {package.name} takes what is there now",
        )
    return replace(package, files=before.files)


def _local(package: Described, pins: Sequence[_Pin]) -> LockedPackage:
    requires = tuple(sorted({pin.name for pin in pins if package.name in pin.parents}))
    return LockedPackage(
        package.name,
        package.version,
        requires=requires,
        entry_points=dict(sorted(package.entry_points.items())),
        path=package.path,
    )


def _described(
    plugins: Sequence[LockedPackage], uv: Uv, work: Path
) -> tuple[tuple[Described, ...], tuple[Notice, ...]]:
    """What plugins say of themselves; the files of their versions are unpacked for it, and none is imported."""
    from importlib.metadata import distributions

    made: list[Described] = []
    notices: list[Notice] = []
    for package in plugins:
        lines = [f"{package.name}=={package.version}", *(f"--hash=sha256:{file.sha256}" for file in package.files)]
        listed, target = work / f"{package.name}.txt", work / "unpacked" / package.name
        listed.write_text(" \\\n    ".join(lines) + "\n", encoding="utf-8")
        try:
            uv(
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--require-hashes",
                "--target",
                target,
                *python(),
                "-r",
                listed,
            )
        except (PzError, NoSolutionError) as error:
            if isinstance(error, PzError) and error.code in ("PZ0328", "PZ0329"):
                raise
            message = (
                f"{package.name} {package.version} has no file for this platform; its entry points are not recorded"
            )
            notices.append(Notice("note", message))
            continue
        made += [described(found) for found in distributions(path=[str(target)])]
    return tuple(made), tuple(notices)

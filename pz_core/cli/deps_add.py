"""The work of ``pz deps add``: resolve first, then write ``project.yml`` and the lock."""

from __future__ import annotations

from pathlib import Path

from pz_core.cli import output
from pz_core.cli.locks import wanted_by_all
from pz_core.errors import PzError, Where


def add_package(root: Path, name: str, version: str | None, find_links: tuple[Path, ...], offline: bool) -> int:
    """List a package and lock it.

    Args:
        root: the project's folder, absolute.
        name: of the package.
        version: the range to list; ``None`` for one that starts with the newest version.
        find_links: folders with packages.
        offline: ask no network.

    Raises:
        PzError: PZ0101 and PZ0139 about ``project.yml``; PZ0320, PZ0327, PZ0328, PZ0329.
    """
    from pz_core.cli.deps import lock_place
    from pz_core.packages.lockfile import relative, write_lock
    from pz_core.packages.making import differences, make_lock, shared_projects
    from pz_core.packages.model import LOCK_FILE, MAIN, Wanted
    from pz_core.packages.uv import Uv
    from pz_core.plugins.offers import normalised
    from pz_core.project.adding import with_package
    from pz_core.project.requirements import PACKAGE_NAME, specifier
    from pz_core.values.atomic import write_whole

    range_ = specifier(version) if version is not None else ""
    if not PACKAGE_NAME.fullmatch(name):
        raise PzError("PZ0101", f"'{name}' is no name of a package", hint="write a name that pip can install")
    if range_ is None:
        hint = "write a version (2.1.4) or a range ('>=1.0 <2.0')"
        raise PzError("PZ0101", f"--version '{version}' is neither a version nor a range", hint=hint)
    folder, found = lock_place(root, (), None)
    projects, notices = shared_projects(found, folder, root)
    output.tell_notices(notices)
    own = relative(root, folder) or "."
    listed = wanted_by_all(projects, folder)
    known = next((item for item in listed if item.project == own and item.name == normalised(name)), None)
    if known is not None:
        hint = "change its version there, then run pz deps lock"
        raise PzError("PZ0139", f"project.yml lists {known.name} already", where=known.where, hint=hint)
    earlier = None if found is None else found.lock
    wanted = (*listed, Wanted(normalised(name), range_, own, Where("project.yml")))
    uv = Uv(folder, tuple(path.resolve() for path in find_links), offline)
    made, told = make_lock(folder, wanted, projects, (), uv, earlier=earlier)
    output.tell_notices(told)
    locked = [package for package in made.packages(MAIN) if package.name == normalised(name)]
    points = [point for package in locked for point in package.entry_points]
    key = "connectors" if any(point.startswith("connector.") for point in points) else "plugins"
    text = with_package(root, key, name, version or _from(locked[-1].version))
    write_whole(root / "project.yml", text, durable=True)
    write_lock(made, folder)
    output.say(f"project.yml lists {name} {version or _from(locked[-1].version)} under {key}:")
    output.say_all(item.line for item in differences(earlier, made))
    output.say(f"{LOCK_FILE} written; pz deps sync installs what it says")
    return 0


def _from(version: str) -> str:
    """``>=1.4.2 <2``: the version itself up to the next major; one below 1.0 up to the next minor."""
    from packaging.version import Version

    parsed = Version(version)
    below = f"{parsed.major + 1}" if parsed.major else f"0.{parsed.minor + 1}"
    return f">={parsed.public} <{below}"

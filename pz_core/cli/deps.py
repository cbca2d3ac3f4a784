"""``pz deps``: lock the packages that projects list, and compare what is installed with the lock."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pz_core import __version__
from pz_core.cli import output
from pz_core.cli.locks import needed_lock, wanted_by_all
from pz_core.cli.management import project_root
from pz_core.cli.options import json_option, project_option
from pz_core.errors import PzError, PzErrors
from pz_core.render.text import plural

if TYPE_CHECKING:
    from pz_core.packages.making import Change
    from pz_core.packages.model import Lock, LockedPackage

_ALL = "*"
_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)
_find_links = click.option(
    "--find-links", metavar="DIR", type=_FOLDER, multiple=True, help="A folder with packages to look into too."
)
_offline = click.option(
    "--offline", is_flag=True, help="Ask no network: what is cached or in a folder is all there is."
)


@click.group()
def deps() -> None:
    """Pin the packages that the project lists, and compare what is installed with the pins."""


@deps.command("lock")
@project_option
@click.option(
    "--upgrade",
    metavar="[NAME]",
    is_flag=False,
    flag_value=_ALL,
    multiple=True,
    help="Take newer versions: of NAME, or of everything.",
)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 if the lock would change.")
@click.option(
    "--find-links", metavar="DIR", type=_FOLDER, multiple=True, help="A folder with packages to look into too."
)
@click.option("--offline", is_flag=True, help="Ask no network: what is cached or in a folder is all there is.")
@click.option(
    "--local", metavar="DIR", type=_FOLDER, multiple=True, help="Lock the package in DIR by name, version and path."
)
@click.option(
    "--at", "at", metavar="DIR", type=_FOLDER, default=None, help="Folder of a lock that several projects share."
)
@json_option
def lock_(
    project: Path,
    upgrade: tuple[str, ...],
    only_check: bool,
    find_links: tuple[Path, ...],
    offline: bool,
    local: tuple[Path, ...],
    at: Path | None,
    as_json: bool,
) -> int:
    """Resolve connectors: and plugins: into pz.lock.json.

    Locked versions stay until --upgrade. Without a lock that names the project, a new one stands beside project.yml, or
    as far up as its --local packages ask for.
    """
    from pz_core.packages.lockfile import write_lock
    from pz_core.packages.making import differences, make_lock, shared_projects
    from pz_core.packages.model import LOCK_FILE
    from pz_core.packages.uv import Uv
    from pz_core.plugins.offers import normalised

    root = project_root(project).resolve()
    locals_ = tuple(path.resolve() for path in local)
    folder, found = lock_place(root, locals_, at)
    projects, notices = shared_projects(found, folder, root)
    output.tell_notices(notices)
    wanted = wanted_by_all(projects, folder)
    earlier = None if found is None else found.lock
    if not wanted and not locals_ and earlier is None:
        output.note("project.yml lists no packages under connectors: or plugins:, so there is nothing to lock")
        if as_json:
            output.say_json({"lock": None, "changed": False, "changes": []})
        return 0
    uv = Uv(folder, tuple(path.resolve() for path in find_links), offline)
    names = None if _ALL in upgrade else frozenset(normalised(name) for name in upgrade)
    made, told = make_lock(folder, wanted, projects, locals_, uv, earlier=earlier, upgrade=names)
    output.tell_notices(told)
    changes = differences(earlier, made)
    changed = earlier != made
    if not only_check:
        changed = write_lock(made, folder)
    count = sum(1 for packages in made.environments.values() for package in packages if not package.is_core)
    if as_json:
        output.say_json(
            {"lock": _shown(folder / LOCK_FILE), "changed": changed, "changes": [_change(item) for item in changes]}
        )
    else:
        output.say_all([item.line for item in changes])
        verb = ("would change" if only_check else "written") if changed else "is up to date"
        output.say(
            f"{_shown(folder / LOCK_FILE)} {verb} ({plural(count, 'package')}, {plural(len(projects), 'project')})"
        )
    return 1 if only_check and changed else 0


@deps.command()
@project_option
@json_option
def check(project: Path, as_json: bool) -> int:
    """Compare what is installed with the lock, version by version and file by file. Exit 1 if something differs."""
    from pz_core.cli.deps_isolated import environment_faults, isolated_of
    from pz_core.packages.files import changed_files
    from pz_core.packages.fitting import not_installed, unlocked
    from pz_core.plugins.registry import Registry

    found = needed_lock(project_root(project))
    own = wanted_by_all((found.project,), found.folder)
    registry = Registry()
    faults = [*unlocked(found.lock, own), *not_installed(found.lock, registry.version, __version__)]
    changed = changed_files(found.lock)
    faults += [fault.error for fault in changed.faults]
    skipped = changed.skipped
    for environment in isolated_of(found, own):
        faults += environment_faults(found.lock, environment)
    if skipped:
        output.note(f"installed editable or without a record, so only the version was compared: {', '.join(skipped)}")
    for fault in faults:
        output.tell(fault.render())
    count = sum(1 for package in found.lock.packages() if not package.is_core)
    if as_json:
        output.say_json(
            {
                "lock": _shown(found.path),
                "fits": not faults,
                "packages": count,
                "notCompared": list(skipped),
                "errors": [fault.as_dict() for fault in faults],
            }
        )
    elif not faults:
        output.say(f"{plural(count, 'package')} as {_shown(found.path)} says")
    return 1 if faults else 0


@deps.command()
@project_option
@_find_links
@_offline
@click.option("--system", is_flag=True, help="Install although pz runs in no virtual environment.")
@click.option("--isolated", is_flag=True, help="Make the environments of packages with isolation: process, too.")
def sync(project: Path, find_links: tuple[Path, ...], offline: bool, system: bool, isolated: bool) -> int:
    """Install exactly what the lock says (pz restore is the same). What else is installed is left alone."""
    from pz_core.cli.deps_isolated import environment_faults, isolated_of, make_environments
    from pz_core.packages.files import changed_files
    from pz_core.packages.fitting import differing, not_installed, unlocked
    from pz_core.packages.sync import in_environment, install
    from pz_core.packages.uv import Uv
    from pz_core.plugins.registry import Registry

    found = needed_lock(project_root(project))
    own = wanted_by_all((found.project,), found.folder)
    refused = unlocked(found.lock, own)
    if refused:
        raise PzErrors(refused)
    changed = frozenset(fault.package for fault in changed_files(found.lock).faults)
    missing = {package.name for package in differing(found.lock, Registry().version)}
    due = [package for package in found.lock.packages() if package.name in changed | missing]
    uv = Uv(found.folder, tuple(path.resolve() for path in find_links), offline)
    if due:
        if not (system or in_environment()):
            raise PzError(
                "PZ0329",
                "pz runs in no virtual environment, and deps sync would change the packages of the whole system",
                hint="make one (python -m venv .venv) and install pz there, or insist with --system",
            )
        install(due, found.folder, uv, anew=changed)
        still = frozenset(fault.package for fault in changed_files(found.lock).faults) if changed else frozenset()
        if still:
            install([p for p in due if p.name in still], found.folder, uv, anew=still, fresh=True)
    apart = isolated_of(found, own)
    made = make_environments(found, apart, uv) if isolated else ()
    faults = [*not_installed(found.lock, Registry().version, __version__)]
    faults += [fault.error for fault in changed_files(found.lock).faults] if due else []
    for environment in apart if isolated else ():
        faults += environment_faults(found.lock, environment)
    for fault in faults:
        output.tell(fault.render())
    for package in due:
        output.say(f"{package.name} {package.version}")
    for environment in made:
        output.say(f"environment of {environment.package}")
    behind = [environment.package for environment in apart if environment_faults(found.lock, environment)]
    if behind and not isolated:
        output.note(f"the environments of {', '.join(behind)} are not as the lock says; --isolated makes them")
    if not faults:
        state = f"{plural(len(due), 'package')} installed" if due else "nothing to install"
        state = f"{plural(len(made), 'environment')} made" if made and not due else state
        output.say(f"{state}; the environment is as {_shown(found.path)} says")
    return 1 if faults else 0


restore = copy(sync)
restore.name = "restore"


@deps.command()
@click.argument("name")
@click.option("--version", "version", metavar="RANGE", default=None, help="What to list, such as '>=1.0 <2.0'.")
@project_option
@_find_links
@_offline
def add(name: str, version: str | None, project: Path, find_links: tuple[Path, ...], offline: bool) -> int:
    """List the package NAME in project.yml and lock it. Without --version: from the newest to below the next major.

    Nothing is written unless it can be resolved; pz deps sync installs it then.
    """
    from pz_core.cli.deps_add import add_package

    return add_package(project_root(project).resolve(), name, version, find_links, offline)


@deps.command()
@project_option
@_find_links
@_offline
@json_option
def outdated(project: Path, find_links: tuple[Path, ...], offline: bool, as_json: bool) -> None:
    """List locked packages that have a newer version within what project.yml allows. Writes nothing."""
    from pz_core.packages.making import differences, make_lock
    from pz_core.packages.uv import Uv

    found = needed_lock(project_root(project))
    wanted = wanted_by_all(found.lock.projects, found.folder)
    uv = Uv(found.folder, tuple(path.resolve() for path in find_links), offline)
    newest, notices = make_lock(found.folder, wanted, found.lock.projects, (), uv, earlier=found.lock, upgrade=None)
    output.tell_notices(notices)
    changes = [item for item in differences(found.lock, newest) if item.before != item.after]
    if as_json:
        output.say_json([_change(item) for item in changes])
    elif changes:
        output.say_all(item.line for item in changes)
    else:
        output.say("every package is at the newest version that project.yml allows")


@deps.command()
@project_option
@json_option
def tree(project: Path, as_json: bool) -> None:
    """Show the locked packages, each below what needs it."""
    from pz_core.packages.lockfile import as_dict

    found = needed_lock(project_root(project))
    own = wanted_by_all((found.project,), found.folder)
    if as_json:
        output.say_json(
            {
                "lock": _shown(found.path),
                "project": found.project,
                "requirements": [
                    {"package": item.name, "version": item.specifier, "environment": item.environment} for item in own
                ],
                "environments": {
                    name: [_without_files(as_dict(package)) for package in packages]
                    for name, packages in found.lock.environments.items()
                },
            }
        )
        return
    lines: list[str] = []
    for item in sorted(own, key=lambda item: item.name):
        lines += _branch(found.lock, item.environment, item.name, item.specifier, 0, ())
    output.say_all(lines or ["the project lists no packages"])


def lock_place(root: Path, local: Sequence[Path], at: Path | None) -> tuple[Path, Any]:
    """The folder of the lock, and the lock that stands there.

    Raises:
        PzError: PZ0101, PZ0320.
    """
    from pz_core.packages.lockfile import FoundLock, find_lock, read_lock, relative
    from pz_core.packages.making import place_for
    from pz_core.packages.model import LOCK_FILE

    found, notes = find_lock(root)
    if at is None:
        folder = place_for(root, local) if found is None else found.folder
    else:
        folder = at.resolve()
        if found is not None and found.folder != folder:
            raise PzError(
                "PZ0320",
                f"{_shown(found.path)} names this project already, and a project has one lock",
                hint="take the project out of it (its list projects, or the whole file), then lock it at the new place",
            )
    name = relative(root, folder)
    outside = next((path for path in local if relative(path, folder) is None), None)
    if name is None or outside is not None:
        shown = "the project" if outside is None else _shown(outside)
        message = f"{shown} is not below {_shown(folder)}, and a lock only knows what is below its own folder"
        raise PzError("PZ0320", message, hint="name a folder above both with --at DIR")
    if found is None and (folder / LOCK_FILE).is_file():
        return folder, FoundLock(folder, read_lock(folder / LOCK_FILE), name)
    if at is None:
        output.tell_notices(notes)
    return folder, found


def _branch(lock: Lock, environment: str, name: str, specifier: str, depth: int, above: tuple[str, ...]) -> list[str]:
    from pz_core.packages.model import readable

    locked = [package for package in lock.packages(environment) if package.name == name]
    lines: list[str] = []
    for package in locked:
        lines.append(f"{'  ' * depth}{_named(package)}{f'  (asked for: {readable(specifier)})' if specifier else ''}")
        if name not in above:
            for required in package.requires:
                lines += _branch(lock, environment, required, "", depth + 1, (*above, name))
    return lines or [f"{'  ' * depth}{name}  (not in the lock)"]


def _named(package: LockedPackage) -> str:
    if package.is_core:
        return f"{package.name} {package.range or 'any version'}"
    place = f"  (folder {package.path})" if package.path is not None else ""
    markers = f"  [{package.markers}]" if package.markers else ""
    return f"{package.name} {package.version}{place}{markers}"


def _without_files(package: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in package.items() if key != "files"}


def _change(item: Change) -> dict[str, Any]:
    return {"environment": item.environment, "package": item.name, "before": item.before, "after": item.after}


def _shown(path: Path) -> str:
    try:
        return path.relative_to(Path.cwd()).as_posix() or "."
    except ValueError:
        import os

        return Path(os.path.relpath(path)).as_posix()

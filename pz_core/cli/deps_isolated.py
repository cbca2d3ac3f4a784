"""What ``pz deps`` does for packages with ``isolation: process``: each has an environment of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pz_core.errors import PzError

if TYPE_CHECKING:
    from pz_core.packages.lockfile import FoundLock
    from pz_core.packages.model import Lock, Wanted
    from pz_core.packages.uv import Uv
    from pz_core.plugins.isolation.environment import Environment


def isolated_of(found: FoundLock, own: Iterable[Wanted]) -> tuple[Environment, ...]:
    """The environments of a project's isolated packages.

    Args:
        found: the project's lock.
        own: what the project lists.
    """
    from pz_core.packages.model import MAIN
    from pz_core.plugins.isolation.environment import environments

    names = sorted({item.environment for item in own} - {MAIN})
    return tuple(environments(found.folder / found.project, names).values())


def environment_faults(lock: Lock, environment: Environment) -> tuple[PzError, ...]:
    """PZ0354 for an environment that was not made, PZ0321, PZ0325 and PZ0326 for what differs in it."""
    from pz_core.packages.files import changed_files
    from pz_core.packages.fitting import not_as_locked
    from pz_core.plugins.isolation.process import not_made

    if not environment.made:
        return (not_made(environment),)
    return (*not_as_locked(lock, environment), *(fault.error for fault in changed_files(lock, environment).faults))


def make_environments(found: FoundLock, isolated: Iterable[Environment], uv: Uv) -> tuple[Environment, ...]:
    """Make the environments that are not as the lock says, and tell which.

    Raises:
        PzError: PZ0307, PZ0320, PZ0327, PZ0328, PZ0329.
    """
    from pz_core.packages.sync import make_environment

    due = tuple(environment for environment in isolated if environment_faults(found.lock, environment))
    for environment in due:
        make_environment(environment, found.lock.packages(environment.package), found.folder, uv)
    return due

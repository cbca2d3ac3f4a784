"""The first lines of an isolated connector's process. It is run by path, in an environment that has no pz.

Standard library only, and nothing of a plugin runs before this is through: standard output becomes standard error, so
that whatever a plugin prints stays off the protocol, and pz itself, with the few packages that its contract needs, is
found where the parent has it. What the environment brings itself always comes first.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution, DistributionFinder


class Lent:
    """Finds the modules that the parent lends, each in its folder, after everything else has been looked through."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The place of a lent top-level module."""
        folder = self._places.get(name)
        if folder is None or path is not None:
            return None
        return importlib.machinery.PathFinder.find_spec(name, [folder])

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        """The metadata of a lent module's distribution: some ask for their own version when they are imported."""
        from importlib.metadata import MetadataPathFinder

        if context.name is None or context.name.lower().replace("-", "_") not in self._places:
            return ()
        folders = sorted(set(self._places.values()))
        return MetadataPathFinder.find_distributions(MetadataPathFinder.Context(name=context.name, path=folders))


def hold_lifeline(fd: int) -> None:
    """Have the kernel end this process when the parent is gone, even while a plugin's code never lets go.

    Nothing is ever written to the pipe; that its other end closes is what counts. Where there is no such signal the
    protocol's own end of stream does it.
    """
    try:
        import fcntl
        import signal

        set_signal = 10 if sys.platform == "linux" else None  # F_SETSIG, which Python does not name
        if set_signal is None:
            return
        fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(fd, set_signal, signal.SIGKILL)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    except (ImportError, OSError):
        return


def main(argv: Sequence[str]) -> None:
    """Prepare the process, then serve.

    Args:
        argv: descriptor of the protocol, of the lifeline, the package, and a JSON object of lent modules.
    """
    protocol, lifeline, package, places = int(argv[1]), int(argv[2]), argv[3], json.loads(argv[4])
    for fd in (protocol, lifeline):
        os.set_inheritable(fd, False)
    hold_lifeline(lifeline)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a bare start needs no pathlib
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.meta_path.append(Lent(places))
    from pz_core.plugins.isolation.child import serve

    serve(protocol, package)


if __name__ == "__main__":
    main(sys.argv)

"""pz moves and reshapes data from a folder of SQL and YAML.

Authors of plugins import ``hookimpl`` from here and everything else from :mod:`pz_core.contract`.
"""

from __future__ import annotations

from typing import Any

__version__ = "1.0.0"

__all__ = ["__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    # pluggy is imported only where a plugin is: `pz --version` must stay bare.
    if name == "hookimpl":
        from pz_core.plugins.markers import hookimpl

        return hookimpl
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

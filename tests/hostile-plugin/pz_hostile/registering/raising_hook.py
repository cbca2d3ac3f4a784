"""Its hook raises."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    raise RuntimeError("not today")

"""Its target is not there."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    return [Registration("hostile_no_target", "pz_hostile.behaving:Absent", "nowhere", ">=1,<2")]

"""Was made for another plugin API."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    return [Registration("hostile_wrong_api", "pz_hostile.behaving:Honest", "from the future", ">=9")]

"""Implements a hook that does not exist."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_conectors() -> list[Registration]:
    return [Registration("hostile_unknown_hook", "pz_hostile.behaving:Honest", "misspelled", ">=1,<2")]

"""Declares a connection key of pz's own."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    return [
        Registration("hostile_reserved_key", "pz_hostile.registering.reserved_key:Reserved", "takes keys", ">=1,<2")
    ]


def __getattr__(name: str) -> type:
    from pz_core.contract import Option, option_set
    from pz_hostile.behaving import Honest

    if name != "Reserved":
        raise AttributeError(name)
    return type("Reserved", (Honest,), {"connection_options": option_set(Option("entities", "any", "all of them"))})

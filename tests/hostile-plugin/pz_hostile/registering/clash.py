"""A connector and a strategy that declare one option, and a connector that takes a word of pz's own."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration

_HERE = "pz_hostile.registering.clash"


@hookimpl
def pz_connectors() -> list[Registration]:
    return [
        Registration("hostile_clash", f"{_HERE}:Clashing", "declares mode", ">=1,<2"),
        Registration("hostile_takes_words", f"{_HERE}:TakesWords", "declares keys", ">=1,<2"),
    ]


@hookimpl
def pz_strategies() -> list[Registration]:
    return [Registration("hostile_clash", f"{_HERE}:ClashingStrategy", "declares mode too", ">=1,<2")]


def __getattr__(name: str) -> type:
    from pz_core.contract import Option, StrategyTraits, option_set
    from pz_hostile.behaving import Honest

    mode = option_set(Option("mode", "string", "how"))
    if name == "Clashing":
        return type(name, (Honest,), {"write_options": mode})
    if name == "TakesWords":
        return type(name, (Honest,), {"write_options": option_set(Option("keys", "list", "which"))})
    if name == "ClashingStrategy":
        traits = StrategyTraits(False, False, False, False, ("program",))
        members = {"options": mode, "traits": traits, "name": "hostile_clash"}
        return type(name, (), {**members, "probes": lambda s, r: (), "program": lambda s, r: ()})
    raise AttributeError(name)

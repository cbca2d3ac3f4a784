"""What a plugin registers: data only; the target is imported on first use."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: Version of the plugin API that this core offers (``major.minor``). Minor versions only add.
API_VERSION = "1.0"

Kind = Literal["connector", "check", "strategy", "state", "engine", "observer"]

KINDS: tuple[Kind, ...] = ("connector", "check", "strategy", "state", "engine", "observer")


class Registration(Struct, frozen=True):
    """One thing that a plugin offers.

    Args:
        name: what projects write (``connector: postgres``, ``strategy: scd2``); ``[a-z][a-z0-9_]*``.
        target: ``module:attribute`` of the class that does the work.
        summary: one line for ``pz plugins``.
        api: the plugin API versions it was written for, as a PEP 440 range such as ``>=1.0,<2``.
        keys: for a state backend, the keys that it takes under ``state:``.
    """

    name: str
    target: str
    summary: str
    api: str
    keys: tuple[str, ...] = ()

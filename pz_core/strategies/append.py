"""The strategy ``append``."""

from __future__ import annotations

from typing import ClassVar

from pz_core.contract.options import OptionSet, option_set
from pz_core.contract.strategy import LoadRequest, Probe, StrategyTraits
from pz_core.strategies.columns import insert_all


class Append:
    """Adds the rows of the batch. Loading a batch twice adds it twice, so a delta needs consent to it."""

    name: ClassVar[str] = "append"
    options: ClassVar[OptionSet] = option_set()
    traits: ClassVar[StrategyTraits] = StrategyTraits(
        takes_keys=False,
        idempotent=False,
        needs_complete_batch=False,
        takes_changes=False,
        load_modes=("add", "program"),
    )

    def probes(self, request: LoadRequest) -> tuple[Probe, ...]:
        """Nothing to ask."""
        return ()

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """One INSERT."""
        return (insert_all(request),)

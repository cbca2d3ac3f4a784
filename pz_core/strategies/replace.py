"""The strategy ``replace``."""

from __future__ import annotations

from typing import ClassVar

from pz_core.contract.options import OptionSet, option_set
from pz_core.contract.strategy import LoadRequest, Probe, StrategyTraits
from pz_core.strategies.columns import insert_all


class Replace:
    """Exchanges the whole content for the batch, which therefore must be all there is."""

    name: ClassVar[str] = "replace"
    options: ClassVar[OptionSet] = option_set()
    traits: ClassVar[StrategyTraits] = StrategyTraits(
        takes_keys=False,
        idempotent=True,
        needs_complete_batch=True,
        takes_changes=False,
        load_modes=("swap", "program"),
    )

    def probes(self, request: LoadRequest) -> tuple[Probe, ...]:
        """Nothing to ask."""
        return ()

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """Empty the target, then insert. Readers see the old rows until the transaction commits."""
        return (f"DELETE FROM {request.target}", insert_all(request))

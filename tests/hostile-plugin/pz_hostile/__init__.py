"""Connectors that break the rules of the kit on purpose, one each."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration

BEHAVING = (
    "honest", "accepts_after_end", "always_well", "batches_too_large", "changes_type", "counts_wrongly", "cuts_names",
    "dies", "drops_nulls", "empties_to_null", "foreign_errors", "hides_old_content", "ignores_abort", "keeps_batches",
    "loses_bounds", "loses_empty_schema", "minds_the_machine", "no_suite", "partial_write", "prints_secrets",
    "replace_adds", "rounds_decimals", "shows_early", "touches_the_place", "undeclared_secret",
)  # fmt: skip


def class_name(variant: str) -> str:
    """``drops_nulls`` is behaved by ``DropsNulls``."""
    return "".join(part.capitalize() for part in variant.split("_"))


@hookimpl
def pz_connectors() -> list[Registration]:
    """All variants that register cleanly."""
    return [
        Registration(f"hostile_{name}", f"pz_hostile.behaving:{class_name(name)}", name.replace("_", " "), ">=1.0,<2")
        for name in BEHAVING
    ]

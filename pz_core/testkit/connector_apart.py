"""Rules of names that look alike."""

from __future__ import annotations

from pz_core.errors import PzError, PzErrors
from pz_core.testkit.asking import refused_by_name
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.rows import Rows
from pz_core.testkit.rules import require, rule

#: Two names that a connector must not take for one; ``{}`` is a text that no other rule uses.
_ALIKE: dict[str, tuple[str, str]] = {
    "space and underscore": ("{} a", "{}_a"),
    "hyphen and underscore": ("{}-a", "{}_a"),
    "quote and none": ("{}'a", "{}a"),
    "percent escape": ("{}%61", "{}a"),
    "accent and none": ("{}é", "{}e"),
    "composed and combining": ("{}\u00e9", "{}e\u0301"),
    "last of many letters": ("{}" + "x" * 45 + "1", "{}" + "x" * 45 + "2"),
}


class ApartRules(ConnectorHooks):
    """Rules that hold for a connector that can be written."""

    @rule("names", needs=["load_modes"], cases=tuple(_ALIKE))
    def names_that_look_alike_are_kept_apart(self, kind: str) -> None:
        """Two entities whose names look alike are two entities, or one is refused by a code."""
        token = self.entity("k")
        one, other = (name.replace("{}", token) for name in _ALIKE[kind])
        strategy, tier = self.strategies()[0], self.write_tiers()[-1]
        held = {}
        for entity, rows in ((one, self.pairs((1, "a"), (2, None))), (other, self.pairs((9, "z")))):
            try:
                self.write(entity, rows, strategy, tier)
            except (PzError, PzErrors) as error:
                wrong = refused_by_name(error)
                require(wrong is None, f"the entity {entity!r}: {wrong}")
                continue
            held[entity] = rows
        for entity, rows in held.items():
            self.sent(rows).must_be(self.found(entity) or Rows((), ()), what=f"entity {entity!r} beside {one!r}")

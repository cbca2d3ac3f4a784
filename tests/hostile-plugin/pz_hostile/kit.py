"""The suite of each variant: the honest one's, with another connector."""

from __future__ import annotations

from typing import Any

from pz_core.testkit import ConnectorSuite
from pz_hostile import BEHAVING, behaving, class_name


class HonestSuite(ConnectorSuite):
    """A folder of the rule's own."""

    connector: Any = behaving.Honest

    def options(self) -> dict[str, Any]:
        return {"folder": "place", "password": "correct-horse-battery"}

    def broken(self) -> dict[str, Any]:
        (self.project / "file").write_text("")
        return {"folder": "file"}


for _name in BEHAVING[1:]:
    _class = class_name(_name)
    globals()[f"{_class}Suite"] = type(f"{_class}Suite", (HonestSuite,), {"connector": getattr(behaving, _class)})

"""Records that show only a part of themselves."""

from __future__ import annotations

from typing import ClassVar

from rich.pretty import pretty_repr

from pz_core.contract import Setup
from pz_core.values.discreet import Discreet

SECRET = "CREATE SECRET s (KEY_ID 'hunter2')"


class More(Setup, frozen=True):
    kept: ClassVar[frozenset[str]] = frozenset({"note"})

    note: str = "hunter3"
    other: int = 7


class Bare(Discreet, frozen=True):
    x: int


def test_what_is_kept_is_shown_by_nothing() -> None:
    for shown in (repr(Setup(SECRET, "secret")), str(Setup(SECRET, "secret")), pretty_repr(Setup(SECRET, "secret"))):
        assert "hunter2" not in shown and "secret" in shown
    assert repr(Bare(1)) == "Bare(x=1)"


def test_a_class_keeps_its_parents_fields_too() -> None:
    for shown in (repr(More(SECRET, "secret")), pretty_repr(More(SECRET, "secret"))):
        assert "hunter" not in shown and "other=7" in shown

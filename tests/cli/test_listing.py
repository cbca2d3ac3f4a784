"""A plugin that cannot be used keeps its row and hurts no other."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import pz_core.cli.connectors as listing
from pz_core.contract import Capabilities
from pz_core.errors import PzError
from pz_core.plugins.registry import PluginRow


def _offer(name: str, package: str = "pz-a", kind: str = "connector") -> Any:
    return SimpleNamespace(kind=kind, name=name, distribution=package, version="1.0", usable=True)


class Registry:
    offers = (_offer("broken"), _offer("good"), _offer("twice", "pz-x"), _offer("twice", "pz-y"))

    def names(self, kind: str) -> tuple[str, ...]:
        return ("broken", "good", "twice")

    def load(self, kind: str, name: str) -> Any:
        if name == "broken":
            raise PzError("PZ0701", "plugin pz-a 1.0 cannot be used: no libfoo", hint="reinstall")
        if name == "twice":
            raise PzError("PZ0702", "two distributions offer it")
        abilities = Capabilities(reads=True, native_read=True, universal_write=True, load_modes=frozenset({"add"}))
        return SimpleNamespace(capabilities=abilities)

    def registration(self, kind: str, name: str) -> Any:
        return SimpleNamespace(summary="a place")

    def describe(self) -> tuple[PluginRow, ...]:
        fault = PzError("PZ0701", "plugin pz-a 1.0 cannot be used: no libfoo", hint="reinstall")
        return (
            PluginRow("connector", "broken", "pz-a", "1.0", fault=fault),
            PluginRow("connector", "good", "pz-a", "1.0", summary="a place", api=">=1,<2"),
            PluginRow("connector", "unlisted", "pz-b", "1.0", usable=False),
        )


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "registry_of", lambda project, vars_json=None: Registry())


def test_rows_of_good_and_broken_connectors(pz: Any) -> None:
    said = pz("connectors")
    assert said.code == 0
    rows = [" ".join(line.split()) for line in said.out.splitlines()[1:]]
    assert rows == [
        "broken pz-a 1.0 PZ0701 cannot be used",
        "good pz-a 1.0 src:native-only snk:universal native_read,reads,universal_write",
        "twice one of pz-x, pz-y - PZ0702 cannot be used",
    ]
    assert "warning PZ0701: plugin pz-a 1.0 cannot be used: no libfoo - hint: reinstall\n" in said.err


def test_the_same_as_json(pz: Any) -> None:
    rows = json.loads(pz("connectors", "--json").out)
    assert rows[0]["error"]["code"] == "PZ0701"
    assert rows[1]["tiers"] == {"source": ["native"], "sink": ["universal"]} and rows[1]["loadModes"] == ["add"]


def test_plugins_names_what_is_broken_on_its_row(pz: Any) -> None:
    said = pz("plugins")
    assert said.code == 0
    assert "PZ0701: cannot be used" in said.out.splitlines()[1] and "warning PZ0701" in said.err
    rows = json.loads(pz("plugins", "--json").out)
    assert rows[0]["error"]["code"] == "PZ0701" and rows[1]["summary"] == "a place"
    assert not rows[2]["usable"] and said.out.splitlines()[3].endswith("not listed in project.yml")

"""The kit's rules on the state backends of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pz_core.state.local import LocalState
from pz_core.state.sqlite import SqliteState
from pz_core.testkit import StateBackendSuite
from pz_core.values import Value


class TestLocal(StateBackendSuite):
    backend = LocalState

    def files(self) -> Iterable[Path]:
        return self.project.glob(".pz/state/*.json")


class TestSqlite(StateBackendSuite):
    backend = SqliteState

    def files(self) -> Iterable[Path]:
        return self.project.glob(".pz/state/state.sqlite*")

    def unreachable(self) -> Mapping[str, Value]:
        (self.project / "file").write_text("")
        return {"path": "file/state.sqlite"}

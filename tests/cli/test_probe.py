from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pz_core.cli.probe import check_connections
from pz_core.contract import CheckReport, ConnectorError, option_set
from pz_core.errors import PzErrors, Where
from pz_core.project.model import Connection, Project


class Place:
    connection_options: ClassVar = option_set()

    def __init__(self, connection: Any) -> None:
        self.name = connection.name

    def check(self) -> Any:
        if self.name == "silent":
            threading.Event().wait(5)
        if self.name == "coded":
            raise ConnectorError("port closed", hint="open it")
        if self.name == "foreign":
            raise RuntimeError("password hunter2")
        if self.name == "down":
            return CheckReport(False, "no such host", hint="look at host")
        return CheckReport(True, "reachable over tcp" if self.name == "chatty" else "")


class Registry:
    def load(self, kind: str, name: str) -> Any:
        return Place


def project(*names: str) -> Project:
    places = {name: Connection(name, "place", where=Where("connections.yml", i)) for i, name in enumerate(names, 1)}
    return Project(Path.cwd(), "demo", "1", connections=places)


def test_what_a_place_says_is_a_note() -> None:
    notices = check_connections(project("quiet", "chatty"), Registry())  # type: ignore[arg-type]
    assert [n.render() for n in notices] == ["note: connection 'chatty': reachable over tcp"]


def test_every_place_that_cannot_be_reached_is_told_without_a_foreign_text() -> None:
    with pytest.raises(PzErrors) as caught:
        check_connections(project("down", "coded", "quiet", "foreign", "silent"), Registry(), limit=0.1)  # type: ignore[arg-type]
    lines = [error.render() for error in caught.value]
    assert [error.code for error in caught.value] == ["PZ0330"] * 4
    assert [line.partition("connection '")[2].partition("'")[0] for line in lines] == [
        "down",
        "coded",
        "foreign",
        "silent",
    ]
    assert "no such host" in lines[0] and "look at host" in lines[0] and "connections.yml:1" in lines[0]
    assert "port closed" in lines[1] and "open it" in lines[1]
    assert "RuntimeError" in lines[2] and "hunter2" not in lines[2]
    assert "within 0.1 seconds" in lines[3]

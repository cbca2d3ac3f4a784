"""Hands the engine what tasks name: connectors, strategies and checks, each made once a run."""

from __future__ import annotations

from threading import RLock
from typing import Any

from pz_core.contract.connector import Connector
from pz_core.contract.registration import Kind
from pz_core.plan.connectors import Connectors
from pz_core.plugins import Registry
from pz_core.project.model import Project


class RunHost:
    """The host of an engine; safe to use from several threads.

    Args:
        project: the loaded project.
        registry: where plugins are found.
    """

    def __init__(self, project: Project, registry: Registry) -> None:
        self._connectors = Connectors(project, registry)
        self._registry = registry
        self._made: dict[tuple[Kind, str], Any] = {}
        self._lock = RLock()

    def connector(self, connection: str) -> Connector:
        """The connector instance of a connection."""
        return self._connectors.instance(connection)

    def strategy(self, name: str) -> object:
        """An instance of a registered strategy."""
        return self._instance("strategy", name)

    def check(self, kind: str) -> object:
        """An instance of a registered check."""
        return self._instance("check", kind)

    def _instance(self, kind: Kind, name: str) -> object:
        with self._lock:
            if (kind, name) not in self._made:
                self._made[kind, name] = self._registry.load(kind, name)()
            return self._made[kind, name]

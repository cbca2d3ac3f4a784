"""The connectors of a project: one class a kind, one instance a connection, made on first use."""

from __future__ import annotations

from threading import RLock

from pz_core.contract.connector import Connector
from pz_core.errors import PzError
from pz_core.plan.connections import connection_config
from pz_core.plugins import Registry
from pz_core.project.model import Project


class Connectors:
    """Hands out connector classes and instances; safe to use from several threads.

    Args:
        project: the loaded project.
        registry: where connectors are found.
    """

    def __init__(self, project: Project, registry: Registry) -> None:
        self._project = project
        self._registry = registry
        self._made: dict[str, Connector] = {}
        self._lock = RLock()

    def target(self, connection: str) -> type[Connector]:
        """The class behind a connection: its declaration, usable without credentials.

        Raises:
            PzError: PZ0305 naming connection, connector and known names; PZ0345, PZ0701 to PZ0705 as
                :meth:`Registry.load` raises them.
        """
        described = self._project.connections[connection]
        with self._lock:
            if not self._registry.has("connector", described.connector):
                missing = self._registry.missing("connector", described.connector)
                raise PzError(
                    missing.code,
                    f"connection '{connection}': {missing.message}",
                    where=described.where,
                    hint=missing.hint,
                )
            try:
                target: type[Connector] = self._registry.load("connector", described.connector)
            except PzError as error:
                raise PzError(
                    error.code,
                    f"connection '{connection}': {error.message}",
                    where=described.where,
                    hint=error.hint,
                    cause=error.cause or error,
                ) from error
            return target

    def instance(self, connection: str) -> Connector:
        """The one instance of a connection; making it touches nothing outside the process.

        Raises:
            PzError: as :meth:`target`, or whatever the connector refuses about its options.
        """
        with self._lock:
            if connection not in self._made:
                target = self.target(connection)
                self._made[connection] = target(connection_config(self._project, connection, self._registry))
            return self._made[connection]

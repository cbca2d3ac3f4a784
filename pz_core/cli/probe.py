"""Tier 5: asks every connection whether it can be reached."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pz_core.errors import Notice, Problems, PzError, Where

if TYPE_CHECKING:
    from pz_core.contract.connector import CheckReport
    from pz_core.plugins import Registry
    from pz_core.project.model import Project

#: Seconds that a connection may take to answer.
LIMIT = 30.0
_AT_ONCE = 8


class _Probe(threading.Thread):
    """Asks one connection. A daemon, so that a place that never answers cannot hold the process."""

    def __init__(self, project: Project, name: str, registry: Registry) -> None:
        super().__init__(name=f"probe-{name}", daemon=True)
        self.connection = name
        self._project = project
        self._registry = registry
        self.report: CheckReport | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            from pz_core.plan.connections import connection_config

            target = self._registry.load("connector", self._project.connections[self.connection].connector)
            self.report = target(connection_config(self._project, self.connection, self._registry)).check()
        except BaseException as error:  # noqa: BLE001 - a connector can raise anything; it is told as PZ0330
            self.error = error


def check_connections(project: Project, registry: Registry, *, limit: float = LIMIT) -> list[Notice]:
    """Ask all connections, a few at once.

    Args:
        project: the loaded project.
        registry: where connectors are found.
        limit: seconds that each may take.

    Returns:
        What connectors wished to tell.

    Raises:
        PzErrors: PZ0330 for each connection that cannot be reached or did not answer in time.
    """
    problems = Problems()
    names = list(project.connections)
    for start in range(0, len(names), _AT_ONCE):
        probes = [_Probe(project, name, registry) for name in names[start : start + _AT_ONCE]]
        for probe in probes:
            probe.start()
        deadline = time.monotonic() + limit
        for probe in probes:
            probe.join(max(0.0, deadline - time.monotonic()))
            _judge(probe, project, problems, limit)
    problems.raise_if_any()
    return problems.notices


def _judge(probe: _Probe, project: Project, problems: Problems, limit: float) -> None:
    where = project.connections[probe.connection].where
    name = probe.connection
    if probe.is_alive():
        hint = "check that the place is up and that a firewall lets this machine in"
        problems.error("PZ0330", f"connection '{name}' did not answer within {limit:g} seconds", where=where, hint=hint)
    elif probe.error is not None:
        problems.errors.append(_refusal(name, probe.error, where))
    elif probe.report is not None and not probe.report.ok:
        message = f"connection '{name}' cannot be reached: {probe.report.message or 'no reason was given'}"
        hint = probe.report.hint or "check its options in connections.yml"
        problems.error("PZ0330", message, where=where, hint=hint)
    elif probe.report is not None and probe.report.message:
        problems.note(f"connection '{name}': {probe.report.message}")


def _refusal(name: str, error: BaseException, where: Where) -> PzError:
    """A coded error speaks for itself; of a foreign one only the type is told, since its text may hold a secret."""
    if isinstance(error, PzError):
        message = f"connection '{name}' cannot be reached: {error.message}"
        return PzError("PZ0330", message, where=where, hint=error.hint, cause=error)
    message = f"connection '{name}' cannot be reached: its connector raised {type(error).__name__}"
    hint = "check its options in connections.yml; PZ_DEBUG=1 adds the stack trace"
    return PzError("PZ0330", message, where=where, hint=hint, cause=error)

"""The hooks. All find things; none does anything: a module answers with registrations, which are data.

Every hook takes no arguments, is called once after its module was imported, and returns a list of
:class:`~pz_core.contract.registration.Registration`. Order does not matter. A hook that raises makes its module
unusable (PZ0701) and leaves every other plugin alone. Since plugin API 1.0.
"""

from __future__ import annotations

from pz_core.contract.registration import Registration
from pz_core.plugins.markers import hookspec


@hookspec
def pz_connectors() -> list[Registration]:
    """Connectors: places that data is read from and written to. Target: :class:`~pz_core.contract.Connector`."""
    return []


@hookspec
def pz_checks() -> list[Registration]:
    """Checks: rules on a pipeline's rows. Target: :class:`~pz_core.contract.Check`."""
    return []


@hookspec
def pz_strategies() -> list[Registration]:
    """Strategies: ways to load a target. Target: :class:`~pz_core.contract.Strategy`."""
    return []


@hookspec
def pz_state_backends() -> list[Registration]:
    """State backends: where a project remembers what it read. Target: :class:`~pz_core.contract.StateBackend`."""
    return []


@hookspec
def pz_engines() -> list[Registration]:
    """Engines: carry tasks out. Target: :class:`~pz_core.contract.engine.Engine`."""
    return []


@hookspec
def pz_observers() -> list[Registration]:
    """Observers of the event stream. Target: :class:`~pz_core.contract.Observer`."""
    return []

"""What an entry point says before anything of it is imported."""

from __future__ import annotations

import re

from msgspec import Struct

from pz_core.contract.registration import KINDS, Kind
from pz_core.errors import PzError

GROUP = "pz"
CORE_DISTRIBUTION = "pz-core"

HOOKS: dict[Kind, str] = {
    "connector": "pz_connectors",
    "check": "pz_checks",
    "strategy": "pz_strategies",
    "state": "pz_state_backends",
    "engine": "pz_engines",
    "observer": "pz_observers",
}
NAME = re.compile(r"[a-z][a-z0-9_]*")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def normalised(distribution: str) -> str:
    """A distribution's name after PEP 503: ``Pz.Connector.S3`` becomes ``pz-connector-s3``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


class Offer(Struct, frozen=True):
    """An entry point of a distribution: a thing that can be loaded. Nothing of it has been imported.

    Args:
        kind, name: from the entry point's name, such as ``connector.postgres``.
        distribution: normalised name of the distribution that brings it.
        version: of the distribution.
        module: the entry point's value.
        path: folder that the distribution was found in.
        usable: whether the project's ``connectors:`` and ``plugins:`` allow it.
        isolated: whether it is installed in an environment of its own and runs there.
    """

    kind: str
    name: str
    distribution: str
    version: str
    module: str
    path: str
    usable: bool = True
    isolated: bool = False

    @property
    def entry_point(self) -> str:
        """``connector.postgres = pz_postgres``."""
        return f"{self.kind}.{self.name} = {self.module}" if self.name else f"{self.kind} = {self.module}"

    @property
    def fault(self) -> str | None:
        """What is wrong with the entry point itself, ``None`` if it can be asked for."""
        if self.kind not in KINDS:
            return f"an entry point is named <kind>.<name>, and the kind is one of {', '.join(KINDS)}"
        if not NAME.fullmatch(self.name):
            return "the name after the kind must be a lower-case word ([a-z][a-z0-9_]*)"
        if not _MODULE.fullmatch(self.module):
            return "the value must be the plugin's module and nothing else"
        return None


def malformed(offer: Offer, what: str) -> PzError:
    """PZ0705: a plugin does not register as it should."""
    return PzError(
        "PZ0705",
        f"plugin {offer.distribution} {offer.version} (entry point {offer.entry_point}) is malformed: {what}",
        hint=f"report this to the authors of {offer.distribution}; if they are you, install it again after the change",
    )


def unusable(offer: Offer, cause: str, error: BaseException) -> PzError:
    """PZ0701: a plugin's own code raised an error."""
    return PzError(
        "PZ0701",
        f"plugin {offer.distribution} {offer.version} (entry point {offer.entry_point}) cannot be used: {cause}",
        hint=f"reinstall or upgrade {offer.distribution}, or uninstall it if the project does not need it",
        cause=error,
    )

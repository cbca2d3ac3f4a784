"""Finds plugins by entry point and loads them one by one, lazily.

Names are known from entry points alone (``connector.postgres``), so nothing is imported to list or to look up.
A plugin that cannot be used is named (PZ0701 to PZ0705, PZ0345) and is harmless to whoever does not ask for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.contract.registration import KINDS, Kind, Registration
from pz_core.errors import PzError
from pz_core.plugins.offers import CORE_DISTRIBUTION, GROUP, Offer, malformed, normalised
from pz_core.plugins.scan import Installed, described, installed

if TYPE_CHECKING:
    from importlib_metadata import Distribution

    from pz_core.plugins.isolation.environment import Environment
    from pz_core.plugins.isolation.proxy import IsolatedPackage
    from pz_core.plugins.modules import Answer


#: First-party packages that are not called after the thing they bring.
_BRINGERS: Mapping[tuple[str, str], str] = {
    ("state", "postgres"): "pz-connector-postgres",
    ("state", "sqlserver"): "pz-connector-sqlserver",
    ("strategy", "scd1"): "pz-strategy-scd",
    ("strategy", "scd2"): "pz-strategy-scd",
}


class PluginRow(Struct, frozen=True):
    """What ``pz plugins`` tells of one thing.

    Args:
        kind, name: as in the entry point.
        distribution, version: what brings it.
        summary, api: from the registration; ``None`` where it could not be asked.
        usable: whether the project lists the distribution; one that it does not list is not imported.
        fault: why it cannot be used.
    """

    kind: str
    name: str
    distribution: str
    version: str
    summary: str | None = None
    api: str | None = None
    usable: bool = True
    fault: PzError | None = None


class Registry:
    """What is installed, as far as a project may use it. Safe to use from several threads.

    Args:
        allowed: names of distributions that the project lists, normalised; ``None`` allows all. What the core ships is
            always allowed.
        found: distributions to look at, for tests; the environment's by default.
        isolated: environments of the packages whose connectors run in a process of their own, by normalised name;
            what is installed of such a package beside pz is not looked at.
    """

    def __init__(
        self,
        allowed: Iterable[str] | None = None,
        found: Iterable[Distribution] | None = None,
        isolated: Mapping[str, Environment] | None = None,
    ) -> None:
        self._isolated = dict(isolated or {})
        self._packages: dict[str, IsolatedPackage] = {}
        self._allowed = None if allowed is None else {normalised(a) for a in allowed} | {CORE_DISTRIBUTION}
        self._found = found
        self._offers: tuple[Offer, ...] | None = None
        self._places: dict[str, list[Installed]] = {}
        self._modules: dict[tuple[str, str], Answer | PzError] = {}
        self._targets: dict[tuple[str, str], Any] = {}
        self._lock = threading.RLock()

    # --- what there is -------------------------------------------------------------------------------------------

    @property
    def offers(self) -> Sequence[Offer]:
        """Every entry point of the group ``pz``, sorted by kind, name and distribution."""
        with self._lock:
            if self._offers is None:
                self._offers = tuple(
                    sorted(self._scan(), key=lambda o: (o.kind, o.name, o.distribution, o.version, o.module))
                )
            return self._offers

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Names of a kind that the project can use, sorted."""
        return tuple(sorted({o.name for o in self.offers if o.kind == kind and o.usable and o.fault is None}))

    def has(self, kind: Kind, name: str) -> bool:
        """Whether a name of a kind can be used; nothing is imported."""
        return name in self.names(kind)

    def offer(self, kind: Kind, name: str) -> Offer | None:
        """The offer of that name, usable or not; a usable one first."""
        same = [o for o in self.offers if o.kind == kind and o.name == name]
        return next((o for o in same if o.usable), same[0] if same else None)

    def _scan(self) -> Iterable[Offer]:
        for found in installed() if self._found is None else described(self._found):
            earlier = self._places.setdefault(found.name, [])
            earlier.append(found)
            if len(earlier) > 1:
                continue  # Python imports the first one on the path; the clash is told when it is asked for (PZ0703)
            if found.name not in self._isolated:
                yield from self._offered(found)
        for environment in self._isolated.values():
            for found in environment.distributions():
                if found.name == environment.package:
                    yield from self._offered(found, isolated=True)

    def _offered(self, found: Installed, *, isolated: bool = False) -> Iterable[Offer]:
        usable = self._allowed is None or found.name in self._allowed
        for point, value in found.entry_points:
            kind, _, name = point.partition(".")
            yield Offer(kind, name, found.name, found.version, value, found.path, usable, isolated)

    def version(self, distribution: str) -> str | None:
        """Version of an installed distribution, plugin or not, ``None`` if there is none. Nothing is imported."""
        with self._lock:
            _ = self.offers
            found = self._places.get(normalised(distribution))
            return found[0].version if found else None

    # --- loading -------------------------------------------------------------------------------------------------

    def load(self, kind: Kind, name: str) -> Any:
        """The target of a registration, imported on first use.

        Raises:
            PzError: PZ0701 (not importable), PZ0702 (two distributions), PZ0703 (two versions), PZ0704 (API), PZ0705
                (malformed), PZ0345 (reserved key), PZ0305 for a connector that is not there, PZ0501 for anything else
                that is not there.
        """
        with self._lock:
            key = (kind, name)
            if key not in self._targets:
                from pz_core.plugins.modules import target_of

                registration = self.registration(kind, name)
                offer = self._one_offer(kind, name)
                package = self._package(offer) if offer.isolated else None
                self._targets[key] = target_of(offer, registration) if package is None else package.target(name)
            return self._targets[key]

    def load_all(self, kind: Kind) -> tuple[Mapping[str, Any], tuple[PzError, ...]]:
        """All targets of a kind that the project can use, by name, and the faults of those that cannot be loaded."""
        made: dict[str, Any] = {}
        faults: list[PzError] = []
        for name in self.names(kind):
            try:
                made[name] = self.load(kind, name)
            except PzError as error:
                faults.append(error)
        return made, tuple(faults)

    def registration(self, kind: Kind, name: str) -> Registration:
        """The registration behind a usable name; imports its module, not its target. Raises like :meth:`load`."""
        from pz_core.plugins.modules import lacking, refuse_foreign_api

        with self._lock:
            offer = self._one_offer(kind, name)
            if offer.fault is not None:
                raise malformed(offer, offer.fault)
            if offer.isolated:
                found: Registration = self._package(offer).registration(name)
                return found
            self._refuse_two_versions(offer)
            for registration in self._registrations(offer)[kind]:
                if registration.name == name:
                    refuse_foreign_api(offer, registration)
                    return registration
            raise lacking(offer, kind, name)

    def describe(self) -> tuple[PluginRow, ...]:
        """Everything that is installed, each with its summary or its fault. Imports what the project may use."""
        return tuple(self._described(offer) for offer in self.offers)

    def _described(self, offer: Offer) -> PluginRow:
        known = (offer.kind, offer.name, offer.distribution, offer.version)
        if not offer.usable:
            return PluginRow(*known, usable=False)
        try:
            registration = self.registration(offer.kind, offer.name)  # type: ignore[arg-type]
        except PzError as error:
            return PluginRow(*known, fault=error)
        return PluginRow(*known, summary=registration.summary, api=registration.api)

    def missing(self, kind: Kind, name: str) -> PzError:
        """The error for a name that cannot be used, with the way to get it."""
        listed = self.offer(kind, name)
        code = "PZ0305" if kind == "connector" else "PZ0501"
        if listed is not None:
            block = "connectors" if kind == "connector" else "plugins"
            return PzError(
                code,
                f"{kind} '{name}' is offered by {listed.distribution} {listed.version}, "
                "which project.yml does not list",
                hint=f"add to {block}: in project.yml: "
                f'- {{package: {listed.distribution}, version: "{listed.version}"}}',
            )
        for environment in self._isolated.values() if kind == "connector" else ():
            if not environment.made:
                from pz_core.plugins.isolation.process import not_made

                return not_made(environment)
        known = ", ".join(self.names(kind)) or "none"
        package = _BRINGERS.get((kind, name)) or f"pz-{kind}-{normalised(name)}"
        return PzError(
            code,
            f"{kind} '{name}' is not installed; known: {known}",
            hint=f"{self._nearest(kind, name)}check the spelling, or pip install {package}",
        )

    def _package(self, offer: Offer) -> IsolatedPackage:
        """The isolated package that an offer comes from.

        Raises:
            PzError: PZ0360 for a thing that cannot run in another process.
        """
        if offer.kind != "connector":
            raise PzError(
                "PZ0360",
                f"{offer.distribution} is isolated and offers {offer.kind} '{offer.name}', which only runs inside pz",
                hint="remove isolation: process from its entry in project.yml, or use connectors of it alone",
            )
        if offer.distribution not in self._packages:
            from pz_core.plugins.isolation.proxy import IsolatedPackage

            self._packages[offer.distribution] = IsolatedPackage(self._isolated[offer.distribution])
        return self._packages[offer.distribution]

    # --- what stands in the way ----------------------------------------------------------------------------------

    def _nearest(self, kind: Kind, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self.names(kind), n=1, cutoff=0.75)
        return f"did you mean '{near[0]}'? " if near else ""

    def _one_offer(self, kind: Kind, name: str) -> Offer:
        usable = [o for o in self.offers if o.kind == kind and o.name == name and o.usable]
        if len({o.distribution for o in usable}) > 1:
            raise PzError(
                "PZ0702",
                f"{len(usable)} distributions offer {kind} '{name}': "
                + " and ".join(f"{o.distribution} {o.version}" for o in usable),
                hint="uninstall all but one, or list only one under connectors: or plugins: in project.yml",
            )
        if len(usable) > 1:
            modules = ", ".join(o.module for o in usable)
            raise malformed(usable[0], f"it names {kind} '{name}' more than once, for {modules}")
        if usable:
            return usable[0]
        raise self.missing(kind, name)

    def _refuse_two_versions(self, offer: Offer) -> None:
        found = self._places.get(offer.distribution, [])
        if len({place.version for place in found}) > 1:
            raise PzError(
                "PZ0703",
                f"{offer.distribution} is on the path in several versions: "
                + " and ".join(f"{place.version} in {place.path}" for place in found),
                hint=f"remove all but one, for example with pip uninstall {offer.distribution}, then install it again",
            )

    def _registrations(self, offer: Offer) -> Answer:
        from pz_core.plugins.modules import ask

        key = (offer.distribution, offer.module)
        made = self._modules.get(key)
        if made is None:
            try:
                made = ask(offer)
                self._refuse_undeclared(offer, made)
            except PzError as error:
                made = error
            self._modules[key] = made
        if isinstance(made, PzError):
            raise made
        return made

    def _refuse_undeclared(self, offer: Offer, answer: Answer) -> None:
        same = (offer.module, offer.distribution)
        declared = {(o.kind, o.name) for o in self.offers if (o.module, o.distribution) == same}
        registered = {(kind, r.name) for kind, items in answer.items() for r in items}
        for kind, name in sorted(registered - declared):
            raise malformed(offer, f"it registers {kind} '{name}', which no entry point '{kind}.{name}' names")


__all__ = ["CORE_DISTRIBUTION", "GROUP", "KINDS", "Offer", "PluginRow", "Registry", "normalised"]

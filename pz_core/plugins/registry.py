"""Finds plugins by entry point and loads them one by one, lazily.

Names are known from entry points alone (``connector.postgres``), so nothing is imported to list or to look up.
A plugin that cannot be used is named (PZ0701 to PZ0705, PZ0345) and is harmless to whoever does not ask for it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from importlib_metadata import Distribution, distributions

from pz_core.contract.options import RESERVED_CONNECTION_KEYS
from pz_core.contract.registration import API_VERSION, KINDS, Kind, Registration
from pz_core.errors import PzError

GROUP = "pz"
CORE_DISTRIBUTION = "pz-core"

_HOOKS: dict[Kind, str] = {
    "connector": "pz_connectors",
    "check": "pz_checks",
    "strategy": "pz_strategies",
    "state": "pz_state_backends",
    "engine": "pz_engines",
    "observer": "pz_observers",
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def normalised(distribution: str) -> str:
    """A distribution's name after PEP 503: ``Pz.Connector.S3`` becomes ``pz-connector-s3``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry point of a distribution: a thing that can be loaded. Nothing of it has been imported.

    Args:
        kind, name: from the entry point's name, such as ``connector.postgres``.
        distribution: normalised name of the distribution that brings it.
        version: of the distribution.
        module: the entry point's value.
        path: folder that the distribution was found in.
        usable: whether the project's ``connectors:`` and ``plugins:`` allow it.
    """

    kind: str
    name: str
    distribution: str
    version: str
    module: str
    path: str
    usable: bool = True

    @property
    def entry_point(self) -> str:
        """``connector.postgres = pz_postgres``."""
        return f"{self.kind}.{self.name} = {self.module}"


class Registry:
    """What is installed, as far as a project may use it.

    Args:
        allowed: names of distributions that the project lists, normalised; ``None`` allows all. What the core ships is always
            allowed.
        found: distributions to look at, for tests; the environment's by default.
    """

    def __init__(self, allowed: Iterable[str] | None = None, found: Iterable[Distribution] | None = None) -> None:
        self._allowed = None if allowed is None else {normalised(a) for a in allowed} | {CORE_DISTRIBUTION}
        self._found = found
        self._offers: list[Offer] | None = None
        self._versions: dict[str, list[tuple[str, str]]] = {}
        self._modules: dict[str, dict[Kind, list[Registration]] | PzError] = {}
        self._targets: dict[tuple[str, str], Any] = {}

    # --- what there is -------------------------------------------------------------------------------------------

    @property
    def offers(self) -> Sequence[Offer]:
        """Every entry point of the group ``pz``, sorted by kind, name and distribution."""
        if self._offers is None:
            self._offers = sorted(self._scan(), key=lambda o: (o.kind, o.name, o.distribution, o.version))
        return self._offers

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Names of a kind that the project can use, sorted."""
        return tuple(sorted({o.name for o in self.offers if o.kind == kind and o.usable}))

    def has(self, kind: Kind, name: str) -> bool:
        """Whether a name of a kind can be used; nothing is imported."""
        return name in self.names(kind)

    def offer(self, kind: Kind, name: str) -> Offer | None:
        """The offer of that name, usable or not; a usable one first."""
        same = [o for o in self.offers if o.kind == kind and o.name == name]
        return next((o for o in same if o.usable), same[0] if same else None)

    def _scan(self) -> Iterable[Offer]:
        seen: set[tuple[str, str, str]] = set()
        for dist in self._found if self._found is not None else distributions():
            points = dist.entry_points.select(group=GROUP)
            if not points:
                continue
            name, version, path = normalised(dist.metadata["Name"]), dist.version, str(dist.locate_file(""))
            key = (name, version, path)
            if key in seen:
                continue
            seen.add(key)
            known = self._versions.setdefault(name, [])
            shadowed = bool(known)
            known.append((version, path))
            if shadowed:
                continue  # Python imports the first one on the path; the clash is told when it is asked for (PZ0703)
            usable = self._allowed is None or name in self._allowed
            for point in points:
                kind, _, short = point.name.partition(".")
                yield Offer(kind, short, name, version, point.value, path, usable)

    # --- loading -------------------------------------------------------------------------------------------------

    def load(self, kind: Kind, name: str) -> Any:
        """The target of a registration, imported on first use.

        Raises:
            PzError: PZ0701 (not importable), PZ0702 (two distributions), PZ0703 (two versions), PZ0704 (API), PZ0705
                (malformed), PZ0345 (reserved key), PZ0305 for a connector that is not there, PZ0501 for anything else
                that is not there.
        """
        key = (kind, name)
        if key not in self._targets:
            self._targets[key] = self._load(kind, name)
        return self._targets[key]

    def registration(self, kind: Kind, name: str) -> Registration:
        """The registration behind a usable name; imports its module, not its target. Raises like :meth:`load`."""
        offer = self._one_offer(kind, name)
        self._refuse_two_versions(offer)
        made = self._registrations(offer)
        for registration in made[kind]:
            if registration.name == name:
                self._refuse_foreign_api(offer, registration)
                return registration
        raise _malformed(offer, f"its entry point names {kind} '{name}', but {_HOOKS[kind]}() does not register it")

    def _one_offer(self, kind: Kind, name: str) -> Offer:
        usable = [o for o in self.offers if o.kind == kind and o.name == name and o.usable]
        if len(usable) > 1:
            raise PzError(
                "PZ0702",
                f"two distributions offer {kind} '{name}': " + " and ".join(f"{o.distribution} {o.version}" for o in usable),
                hint="uninstall one of them, or list only one under connectors: or plugins: in project.yml",
            )
        if usable:
            return usable[0]
        raise self.missing(kind, name)

    def missing(self, kind: Kind, name: str) -> PzError:
        """The error for a name that cannot be used, with the way to get it."""
        listed = self.offer(kind, name)
        code = "PZ0305" if kind == "connector" else "PZ0501"
        if listed is not None:
            block = "connectors" if kind == "connector" else "plugins"
            return PzError(
                code,
                f"{kind} '{name}' is offered by {listed.distribution} {listed.version}, which project.yml does not list",
                hint=f"add to {block}: in project.yml: - {{package: {listed.distribution}, version: \"{listed.version}\"}}",
            )
        known = ", ".join(self.names(kind)) or "none"
        package = f"pz-{kind}-{name.replace('_', '-')}"
        return PzError(
            code, f"{kind} '{name}' is not installed; known: {known}", hint=f"check the spelling, or pip install {package}"
        )

    def _refuse_two_versions(self, offer: Offer) -> None:
        found = self._versions.get(offer.distribution, [])
        if len(found) > 1:
            raise PzError(
                "PZ0703",
                f"{offer.distribution} is on the path more than once: "
                + " and ".join(f"{version} in {path}" for version, path in found),
                hint="remove all but one, for example with pip uninstall",
            )

    def _refuse_foreign_api(self, offer: Offer, registration: Registration) -> None:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            fits = SpecifierSet(registration.api).contains(API_VERSION)
        except InvalidSpecifier:
            raise _malformed(offer, f"'{registration.api}' is no range of API versions") from None
        if not fits:
            raise PzError(
                "PZ0704",
                f"{offer.distribution} {offer.version} wants plugin API {registration.api} for {offer.kind} '{registration.name}', "
                f"this pz offers {API_VERSION}",
                hint=f"install a version of {offer.distribution} made for plugin API {API_VERSION}",
            )

    def _registrations(self, offer: Offer) -> dict[Kind, list[Registration]]:
        made = self._modules.get(offer.module)
        if made is None:
            try:
                made = self._ask(offer)
            except PzError as error:
                made = error
            self._modules[offer.module] = made
        if isinstance(made, PzError):
            raise made
        return made

    def _ask(self, offer: Offer) -> dict[Kind, list[Registration]]:
        import pluggy

        from pz_core.plugins import hookspecs

        module = _import(offer, offer.module)
        manager = pluggy.PluginManager("pz")
        manager.add_hookspecs(hookspecs)
        try:
            manager.register(module, name=offer.module)
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise _malformed(offer, str(error)) from error
        unknown = sorted(n for n in vars(module) if n.startswith("pz_") and hasattr(getattr(module, n), "pz_impl"))
        strangers = [n for n in unknown if n not in _HOOKS.values()]
        if strangers:
            raise _malformed(offer, f"unknown hook {', '.join(strangers)}")
        answer: dict[Kind, list[Registration]] = {}
        for kind, hook in _HOOKS.items():
            try:
                lists = getattr(manager.hook, hook)()
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its fault, named, and harmless to others
                raise _unusable(offer, f"{hook}() raised {type(error).__name__}: {error}", error) from error
            answer[kind] = [_checked(offer, hook, item) for items in lists for item in _as_list(offer, hook, items)]
        self._refuse_undeclared(offer, answer)
        return answer

    def _refuse_undeclared(self, offer: Offer, answer: dict[Kind, list[Registration]]) -> None:
        declared = {(o.kind, o.name) for o in self.offers if o.module == offer.module and o.distribution == offer.distribution}
        registered = {(kind, r.name) for kind, items in answer.items() for r in items}
        for kind, name in sorted(registered - declared):
            raise _malformed(offer, f"it registers {kind} '{name}', which no entry point '{kind}.{name}' names")

    def _load(self, kind: Kind, name: str) -> Any:
        registration = self.registration(kind, name)
        offer = self._one_offer(kind, name)
        module_name, _, attribute = registration.target.partition(":")
        if not attribute:
            raise _malformed(offer, f"target '{registration.target}' is not 'module:attribute'")
        module = _import(offer, module_name)
        target = getattr(module, attribute, None)
        if target is None:
            raise _malformed(offer, f"target '{registration.target}' does not exist")
        if kind == "connector":
            _refuse_reserved(offer, name, target)
        return target


def _import(offer: Offer, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except PzError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an import can raise anything; it is named and harmless to others
        raise _unusable(offer, f"importing {name} raised {type(error).__name__}: {error}", error) from error


def _unusable(offer: Offer, cause: str, error: BaseException) -> PzError:
    return PzError(
        "PZ0701",
        f"plugin {offer.distribution} {offer.version} (entry point {offer.entry_point}) cannot be used: {cause}",
        hint=f"reinstall or upgrade {offer.distribution}, or uninstall it if the project does not need it",
        cause=error,
    )


def _malformed(offer: Offer, what: str) -> PzError:
    return PzError(
        "PZ0705",
        f"plugin {offer.distribution} {offer.version} (entry point {offer.entry_point}) is malformed: {what}",
        hint=f"report this to the authors of {offer.distribution}",
    )


def _as_list(offer: Offer, hook: str, items: Any) -> Sequence[Any]:
    if not isinstance(items, (list, tuple)):
        raise _malformed(offer, f"{hook}() returned {type(items).__name__}, not a list of registrations")
    return items


def _checked(offer: Offer, hook: str, item: Any) -> Registration:
    if not isinstance(item, Registration):
        raise _malformed(offer, f"{hook}() returned a list with a {type(item).__name__}, not a Registration")
    if not isinstance(item.name, str) or not _NAME.fullmatch(item.name):
        raise _malformed(offer, f"{hook}() registers a thing with the name {item.name!r}")
    return item


def _refuse_reserved(offer: Offer, name: str, target: Any) -> None:
    taken = [key for key in target.connection_options.names() if key in RESERVED_CONNECTION_KEYS]
    if taken:
        raise PzError(
            "PZ0345",
            f"connector '{name}' of {offer.distribution} {offer.version} declares the reserved connection key {', '.join(taken)}",
            hint=f"reserved are {', '.join(RESERVED_CONNECTION_KEYS)}; the connector must name its option differently",
        )


__all__ = ["CORE_DISTRIBUTION", "GROUP", "KINDS", "Offer", "Registry", "normalised"]

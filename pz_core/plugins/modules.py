"""Importing a plugin's module, asking its hooks, and holding it to what it says.

A plugin can raise anything at any of these steps, SystemExit too. It is named, and every other plugin lives on.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from pz_core.contract.options import RESERVED_CONNECTION_KEYS, OptionSet
from pz_core.contract.registration import API_VERSION, Kind, Registration
from pz_core.errors import PzError
from pz_core.plugins.offers import HOOKS, NAME, Offer, malformed, unusable

Answer = dict[Kind, list[Registration]]

#: What a record says of arguments that it does not take.
_WRONG_RECORD = re.compile(r"Missing required argument '|Unexpected keyword argument '|Extra positional arguments ")
_TARGET = re.compile(r"[\w.]+:\w+")
#: What nothing works without; the kit's suites look at the whole contract.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "connector": (
        "connection_options", "read_options", "write_options", "capabilities", "open_source", "open_sink",
    ),
    "check": ("define", "query"),
    "strategy": ("options", "traits", "probes", "program"),
    "state": ("describe", "read", "entries", "write", "remove", "close"),
    "engine": ("land", "materialise", "check", "drain", "close"),
    "observer": ("on_event", "close"),
}  # fmt: skip


def ask(offer: Offer) -> Answer:
    """Import the offer's module and collect what its hooks register.

    Raises:
        PzError: PZ0701 if its code raises, PZ0705 if hooks or registrations are not as they should be.
    """
    import pluggy

    from pz_core.plugins import hookspecs

    module = _import(offer, offer.module)
    _refuse_strange_hooks(offer, module)
    manager = pluggy.PluginManager("pz")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module, name=offer.module)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise malformed(offer, str(error)) from error
    answer: Answer = {}
    for kind, hook in HOOKS.items():
        try:
            with redirect_stdout(sys.stderr):  # stdout is for the one document that was asked for
                lists = getattr(manager.hook, hook)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, TypeError) and _WRONG_RECORD.match(str(error)):
                raise malformed(offer, f"{hook}() makes a registration wrongly: {error}") from error
            raise unusable(offer, f"{hook}() raised {_shown(error)}", error) from error
        answer[kind] = [_checked(offer, hook, item) for items in lists for item in _as_list(offer, hook, items)]
        names = [item.name for item in answer[kind]]
        for name in sorted({n for n in names if names.count(n) > 1}):
            raise malformed(offer, f"{hook}() registers '{name}' twice")
    return answer


def lacking(offer: Offer, kind: Kind, name: str) -> PzError:
    """PZ0705 for a name that the entry point promises and the hook does not register."""
    hook = HOOKS[kind]
    function = getattr(sys.modules.get(offer.module), hook, None)
    if function is not None and not hasattr(function, "pz_impl"):
        return malformed(offer, f"{hook}() lacks the marker pz_core.hookimpl")
    return malformed(offer, f"its entry point names {kind} '{name}', but {hook}() does not register it")


def refuse_foreign_api(offer: Offer, registration: Registration) -> None:
    """Hold a registration to the plugin API that this core offers.

    Raises:
        PzError: PZ0704 if its range excludes this one, PZ0705 if it is no range.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        fits = SpecifierSet(registration.api).contains(API_VERSION)
    except InvalidSpecifier:
        raise malformed(offer, f"'{registration.api}' is no range of API versions") from None
    if not registration.api.strip():
        raise malformed(offer, "it does not say which plugin API it was written for")
    if not fits:
        raise PzError(
            "PZ0704",
            f"{offer.distribution} {offer.version} wants plugin API {registration.api} for {offer.kind} "
            f"'{registration.name}', this pz offers {API_VERSION}",
            hint=f"install a version of {offer.distribution} made for plugin API {API_VERSION}",
        )


def target_of(offer: Offer, registration: Registration) -> Any:
    """Import the thing itself.

    Raises:
        PzError: PZ0701 if its code raises, PZ0705 if it is not there or lacks members, PZ0345 for a reserved key.
    """
    module_name, _, attribute = registration.target.partition(":")
    module = _import(offer, module_name)
    try:
        target = getattr(module, attribute, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise unusable(offer, f"reading {registration.target} raised {_shown(error)}", error) from error
    if target is None:
        raise malformed(offer, f"target '{registration.target}' does not exist")
    missing = [member for member in _MEMBERS[offer.kind] if not hasattr(target, member)]
    if missing or not callable(target):
        what = f"lacks {', '.join(missing)}" if missing else "is no class"
        raise malformed(offer, f"target '{registration.target}' {what}")
    if offer.kind == "connector":
        _refuse_options(offer, registration, target)
    return target


def _import(offer: Offer, name: str) -> Any:
    try:
        with redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise unusable(offer, f"importing {name} raised {_shown(error)}", error) from error


def _shown(error: BaseException) -> str:
    if isinstance(error, PzError):
        return f"{error.code}: {error.message}"
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _refuse_strange_hooks(offer: Offer, module: Any) -> None:
    for name, member in sorted(vars(module).items()):
        marks = getattr(member, "pz_impl", None) if callable(member) else None
        if not isinstance(marks, dict):
            continue
        hook = marks.get("specname") or name
        if hook not in HOOKS.values():
            raise malformed(offer, f"unknown hook {hook}(); hooks are {', '.join(HOOKS.values())}")
        if marks.get("wrapper") or marks.get("hookwrapper"):
            raise malformed(offer, f"{hook}() is a wrapper; hooks of pz are called one by one")


def _as_list(offer: Offer, hook: str, items: Any) -> Sequence[Any]:
    if not isinstance(items, (list, tuple)):
        raise malformed(offer, f"{hook}() returned {type(items).__name__}, not a list of registrations")
    return items


def _checked(offer: Offer, hook: str, item: Any) -> Registration:
    if not isinstance(item, Registration):
        raise malformed(offer, f"{hook}() returned a list with a {type(item).__name__}, not a Registration")
    if not isinstance(item.name, str) or not NAME.fullmatch(item.name):
        raise malformed(offer, f"{hook}() registers a thing with the name {item.name!r}; a name is [a-z][a-z0-9_]*")
    for attribute in ("target", "summary", "api"):
        if not isinstance(getattr(item, attribute), str):
            raise malformed(offer, f"the {attribute} of '{item.name}' is no text")
    if not _TARGET.fullmatch(item.target):
        raise malformed(offer, f"target '{item.target}' of '{item.name}' is not 'module:attribute'")
    if not isinstance(item.keys, tuple) or not all(isinstance(key, str) for key in item.keys):
        raise malformed(offer, f"the keys of '{item.name}' are no tuple of texts")
    return item


def _refuse_options(offer: Offer, registration: Registration, target: Any) -> None:
    for attribute in ("connection_options", "read_options", "write_options"):
        if not isinstance(getattr(target, attribute), OptionSet):
            raise malformed(offer, f"{attribute} of '{registration.target}' is no OptionSet")
    taken = [key for key in target.connection_options.names() if key in RESERVED_CONNECTION_KEYS]
    if taken:
        raise PzError(
            "PZ0345",
            f"connector '{registration.name}' of {offer.distribution} {offer.version} declares the reserved connection "
            f"key {', '.join(taken)}",
            hint=f"reserved are {', '.join(RESERVED_CONNECTION_KEYS)}; the connector must name its option differently",
        )

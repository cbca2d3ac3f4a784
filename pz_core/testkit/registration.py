"""What every plugin owes before it does anything: that it registers cleanly, quietly and without a clash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any, ClassVar

from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet
from pz_core.contract.registration import Kind, Registration
from pz_core.plugins.offers import CORE_DISTRIBUTION, HOOKS, Offer, normalised
from pz_core.plugins.registry import Registry
from pz_core.testkit.rules import Broken, NotApplicable, Rule, Suite, require, rule

#: Words of pz's own beside a connector's options: they never reach a connector.
READ_WORDS = frozenset({"columns", "sync", "retry"})
WRITE_WORDS = frozenset({"strategy", "keys", "duplicates", "on_delete", "schema_policy", "retry"})
#: Packages that take long to import, and that listing plugins therefore must not import.
HEAVY = (
    "duckdb",
    "pyarrow",
    "pandas",
    "numpy",
    "sqlglot",
    "jinja2",
    "sqlalchemy",
    "psycopg",
    "requests",
    "httpx",
    "boto3",
)

_IMPORT = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
hook = getattr(module, sys.argv[2], None)
if hook is not None:
    hook()
with open(sys.argv[3], "w") as file:
    json.dump(sorted(sys.modules), file)
"""


class RegistrationSuite(Suite):
    """The rules of registering, for one thing that an installed package offers."""

    registry: ClassVar[Registry | None] = None
    """What is installed."""

    offer: ClassVar[Offer | None] = None
    """The entry point."""

    @classmethod
    def subject(cls) -> str | None:
        """Kind and name."""
        return None if cls.offer is None else f"{cls.offer.kind}.{cls.offer.name}"

    def not_applicable(self, each: Rule) -> str | None:
        """What follows from loading it is left out where it cannot be loaded: that is told once."""
        if each.name in ("it_loads", "importing_it_is_quick_and_quiet", "its_package_says_which_pz_it_needs"):
            return None
        try:
            self._target()
        except Exception:  # noqa: BLE001 - the rule it_loads tells it
            return "it cannot be loaded"
        return None

    @rule("registration")
    def it_loads(self) -> None:
        """Entry point, hook, registration and target agree, and nobody else has the name."""
        self._target()

    @rule("registration")
    def importing_it_is_quick_and_quiet(self) -> None:
        """Its module only registers: it imports nothing heavy and prints nothing, so that listing plugins is quick."""
        offer = self._offer()
        if offer.fault is not None or offer.kind not in HOOKS:
            raise NotApplicable("its entry point names no module to import")
        seen = self.folder / "modules.json"
        command = [sys.executable, "-c", _IMPORT, offer.module, HOOKS[offer.kind], str(seen)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environ, timeout=60, stdin=subprocess.DEVNULL
        )
        if not seen.exists():
            raise NotApplicable("it cannot be imported")
        require(not done.stdout and not done.stderr, "it prints when it is imported or asked for what it registers")
        loaded = set(json.loads(seen.read_text()))
        heavy = [name for name in HEAVY if name in loaded]
        require(not heavy, f"importing {offer.module} imports {', '.join(heavy)}; import them where they are used")

    @rule("registration")
    def its_package_says_which_pz_it_needs(self) -> None:
        """The package requires pz-core, with an upper bound, so that a lock can tell which versions go together."""
        from importlib.metadata import PackageNotFoundError, distribution

        from packaging.requirements import InvalidRequirement, Requirement

        offer = self._offer()
        if offer.distribution == CORE_DISTRIBUTION:
            raise NotApplicable("it comes with pz itself")
        try:
            texts = distribution(offer.distribution).requires or []
        except PackageNotFoundError:
            raise NotApplicable("its package has no metadata") from None
        for text in texts:
            try:
                needed = Requirement(text)
            except InvalidRequirement:
                continue
            if normalised(needed.name) == CORE_DISTRIBUTION:
                bounded = any(part.operator in ("<", "<=", "==", "~=") for part in needed.specifier)
                require(bounded, f"{offer.distribution} requires '{text}'; a next major version may not fit it")
                return
        raise Broken(f"{offer.distribution} does not require {CORE_DISTRIBUTION}")

    @rule("registration")
    def its_summary_is_one_line(self) -> None:
        """The summary that pz plugins shows is one line of text."""
        summary = self._registration().summary
        require(summary.strip() and "\n" not in summary and len(summary) <= 120, f"the summary is {summary!r}")

    @rule("registration")
    def its_options_are_sound(self) -> None:
        """Every option has a plain name, one line that documents it, and choices and bounds of its own type."""
        for place, options in self._option_sets().items():
            names = [option.name for option in options.options]
            twice = sorted({name for name in names if names.count(name) > 1})
            require(not twice, f"{place} declares {', '.join(twice)} twice")
            for option in options.options:
                fault = _fault_of(option)
                require(fault is None, f"{place}: option '{option.name}' {fault}")

    @rule("registration")
    def its_options_take_no_word_of_pz(self) -> None:
        """No option is called like a word of pz's own, which would never reach it."""
        taken = {
            "connection_options": frozenset(RESERVED_CONNECTION_KEYS),
            "read_options": READ_WORDS,
            "write_options": WRITE_WORDS,
            "options": WRITE_WORDS,
        }
        for place, options in self._option_sets().items():
            mine = sorted(taken.get(place, frozenset()) & set(options.names()))
            require(not mine, f"{place} declares {', '.join(mine)}, which pz takes for itself")

    @rule("registration")
    def its_options_clash_with_none(self) -> None:
        """No write option is one that a strategy declares too, nor the other way round (PZ0705 at every such sink)."""
        offer, sets = self._offer(), self._option_sets()
        other: Kind = "strategy" if offer.kind == "connector" else "connector"
        own = sets.get("write_options" if offer.kind == "connector" else "options")
        if offer.kind not in ("connector", "strategy") or own is None:
            raise NotApplicable("only connectors and strategies share a sink")
        assert self.registry is not None
        loaded, _ = self.registry.load_all(other)
        for name, target in loaded.items():
            theirs = getattr(target, "options" if other == "strategy" else "write_options", OptionSet())
            both = sorted(set(own.names()) & set(theirs.names()))
            require(not both, f"{offer.kind} '{offer.name}' and {other} '{name}' both declare {', '.join(both)}")

    def _offer(self) -> Offer:
        assert self.offer is not None
        return self.offer

    def _registration(self) -> Registration:
        assert self.registry is not None
        offer = self._offer()
        return self.registry.registration(offer.kind, offer.name)  # type: ignore[arg-type]

    def _target(self) -> Any:
        assert self.registry is not None
        offer = self._offer()
        return self.registry.load(offer.kind, offer.name)  # type: ignore[arg-type]

    def _option_sets(self) -> dict[str, OptionSet]:
        target = self._target()
        places = ("connection_options", "read_options", "write_options", "options")
        return {place: made for place in places if isinstance(made := getattr(target, place, None), OptionSet)}


def _fault_of(option: Option) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", option.name):
        return "is no plain lower-case word"
    if not option.summary.strip() or "\n" in option.summary:
        return "is not documented in one line"
    if option.minimum is not None and option.maximum is not None and option.minimum > option.maximum:
        return "has a minimum above its maximum"
    if option.secret and option.choices:
        return "is a secret with a list of its values"
    if option.required and option.default is not None:
        return "is required and has a default"
    return None


class OfferedSuite(Suite):
    """Stands for a suite that a plugin names and that cannot be had."""

    reason: ClassVar[str | None] = None
    """Why not."""

    @classmethod
    def subject(cls) -> str | None:
        """The suite that is missing."""
        return None if cls.reason is None else "testkit"

    @rule("registration")
    def its_suite_is_there(self) -> None:
        """The suite that the attribute testkit names can be imported and is one for the kind."""
        raise Broken(self.reason or "")

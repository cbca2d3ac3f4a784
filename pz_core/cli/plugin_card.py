"""``pz plugins check``: the rules of the kit, run on what is installed, and what came of them.

The rules run in a process of their own: what a plugin prints must not stand in our output, and one that dies or never
comes back must not take the card with it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from pz_core.errors import PzError, one_line
from pz_core.plugins.offers import Offer, normalised
from pz_core.plugins.registry import Registry
from pz_core.values.processes import told_end

if TYPE_CHECKING:
    from pz_core.testkit.rules import Suite

#: Seconds for all rules of one plugin.
LIMIT_S = 1800.0
_SUITES = {
    "connector": ("pz_core.testkit", "ConnectorSuite", "connector"),
    "check": ("pz_core.testkit", "CheckSuite", "check"),
    "strategy": ("pz_core.testkit", "StrategySuite", "strategy"),
    "state": ("pz_core.testkit", "StateBackendSuite", "backend"),
}
#: Kinds whose rules need nothing but the class, so that no suite has to be offered.
_NEED_NO_PLACE = ("strategy",)


class Card(Struct, frozen=True):
    """The score card of one thing that a package offers.

    Args:
        offer: what was tested.
        results: one a rule and variant, as :meth:`pz_core.testkit.report.RuleResult.as_dict` has them.
        note: what was left out, and how to have it.
    """

    offer: Offer
    results: tuple[dict[str, Any], ...]
    note: str | None = None

    @property
    def broken(self) -> tuple[dict[str, Any], ...]:
        """Results of rules that are not kept."""
        return tuple(result for result in self.results if result["outcome"] == "failed")

    def counts(self) -> dict[str, int]:
        """How many rules ended how."""
        words = ("passed", "failed", "skipped", "notyet")
        return {word: sum(result["outcome"] == word for result in self.results) for word in words}

    def as_dict(self) -> dict[str, Any]:
        """The card as JSON-ready data."""
        made: dict[str, Any] = {
            "kind": self.offer.kind,
            "name": self.offer.name,
            "package": self.offer.distribution,
            "version": self.offer.version,
            "ok": not self.broken,
            "counts": self.counts(),
            "results": list(self.results),
        }
        return made if self.note is None else {**made, "note": self.note}

    def lines(self) -> list[str]:
        """The card as text."""
        offer = self.offer
        made = [f"{offer.kind} '{offer.name}' of {offer.distribution} {offer.version}"]
        areas = list(dict.fromkeys(result["area"] for result in self.results))
        for area in areas:
            mine = [result for result in self.results if result["area"] == area]
            due = [result for result in mine if result["outcome"] != "skipped"]
            kept = [result for result in due if result["outcome"] == "passed"]
            more = ", ".join(
                f"{count} {words}"
                for words, count in (
                    ("not yet", sum(result["outcome"] == "notyet" for result in mine)),
                    ("not concerned", len(mine) - len(due)),
                )
                if count
            )
            made.append(f"  {area:<14} {len(kept):>3} of {len(due):<3}{f'  ({more})' if more else ''}".rstrip())
        for result in self.broken:
            made.append(f"  FAIL {result['area']}: {result['rule']}: {result['title']}")
            made.append(f"       {result['reason']}")
        made += [f"  {self.note}"] if self.note else []
        counts = self.counts()
        made.append(f"  {counts['passed']} rules kept, {counts['failed']} broken")
        return made


def offers_named(name: str, registry: Registry) -> tuple[Offer, ...]:
    """What a name means: a plugin (``orders``, ``connector.orders``), or all that a package offers.

    Raises:
        PzError: PZ0707 if nothing of that name is installed.
    """
    kind, dot, short = name.partition(".")
    found = [
        offer
        for offer in registry.offers
        if offer.name == name
        or (dot and (offer.kind, offer.name) == (kind, short))
        or offer.distribution == normalised(name)
    ]
    if found:
        return tuple(found)
    known = ", ".join(sorted({f"{offer.kind}.{offer.name}" for offer in registry.offers}))
    raise PzError(
        "PZ0707",
        f"nothing that is installed is called '{name}'; known: {known}",
        hint="install the package first (python -m pip install -e .), or correct the name",
    )


def card_of(offer: Offer, rules: Sequence[str] = ()) -> Card:
    """Run the rules for one thing, in a process of its own.

    Args:
        offer: what is tested.
        rules: names of rules, with or without a variant in brackets, to run alone; all if there are none.
    """
    with tempfile.TemporaryDirectory(prefix="pz-card-") as folder:
        told = Path(folder) / "results"
        told.touch()
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
        command = [sys.executable, "-m", "pz_core.cli.plugin_card", str(told), offer.kind, offer.name]
        process = subprocess.Popen(
            [*command, offer.distribution, *rules],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("PZ_DEBUG") else subprocess.DEVNULL,
        )
        try:
            ended = told_end(process.wait(LIMIT_S))
        except subprocess.TimeoutExpired:
            ended = f"all rules together took more than {LIMIT_S:g} seconds"
        finally:
            process.kill()
            process.wait()
        lines = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    results = [line for line in lines if "rule" in line]
    last = lines[-1] if lines else {}
    if rules and not results and last.get("end") is True:
        raise PzError(
            "PZ0707",
            f"no rule for {offer.kind} '{offer.name}' is called {', '.join(rules)}",
            hint=f"pz plugins check {offer.name} --json names all of them",
        )
    if last.get("end") is not True:
        at = last.get("begin") or "the first rule"
        results.append(_died(f"the process of the rules ended during {at}: {ended}"))
    return Card(offer, tuple(results), next((line["note"] for line in lines if "note" in line), None))


def _died(reason: str) -> dict[str, Any]:
    title = "Whatever a rule does to it, it leaves the process alive"
    return {"rule": "it_lives", "title": title, "area": "registration", "outcome": "failed", "reason": reason}


# --- in the process of the rules -------------------------------------------------------------------------------------


def main(argv: Sequence[str]) -> None:
    """Run the rules and append what comes of each to a file, a JSON object a line.

    Args:
        argv: the file, then kind, name and distribution of what is tested, then the rules to run alone.
    """
    told, kind, name, distribution = Path(argv[1]), *argv[2:5]
    wanted = frozenset(argv[5:])

    def tell(line: dict[str, Any]) -> None:
        with told.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    try:
        registry = Registry()
        offer = next(o for o in registry.offers if (o.kind, o.name, o.distribution) == (kind, name, distribution))
        for suite in _suites(offer, registry, tell):
            _run(suite, wanted, tell)
        tell({"end": True})
    except BaseException as error:  # noqa: BLE001 - it is told in the card
        tell({"begin": f"its start ({type(error).__name__}: {one_line(str(error))})"})
        os._exit(1)
    os._exit(0)  # a rule that never came back still has its thread


def _run(suite: type[Suite], wanted: frozenset[str], tell: Any) -> None:
    from pz_core.testkit.report import run_suite

    for case in suite.rule_cases():
        if wanted and not wanted & {case.id, case.rule.name}:
            continue
        tell({"begin": case.id})
        report = run_suite(suite, only={case.id})
        for result in report.results:
            tell(result.as_dict())


def _suites(offer: Offer, registry: Registry, tell: Any) -> Iterable[type[Suite]]:
    from pz_core.testkit.registration import RegistrationSuite

    yield cast("type[Suite]", type("Registering", (RegistrationSuite,), {"registry": registry, "offer": offer}))
    try:
        target = registry.load(offer.kind, offer.name)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - the rules of registering have told it
        return
    if offer.kind not in _SUITES:
        tell({"note": f"the kit has no rules for a plugin of the kind {offer.kind} beyond these"})
        return
    named = getattr(target, "testkit", None)
    if named is not None:
        yield _offered(named, offer.kind)
    elif offer.kind in _NEED_NO_PLACE:
        module, suite, attribute = _SUITES[offer.kind]
        base: Any = getattr(importlib.import_module(module), suite)
        yield cast("type[Suite]", type(f"Default{suite}", (base,), {attribute: target}))
    else:
        tell(
            {
                "note": f"only its registration was checked: the {offer.kind} names no suite to test it with "
                "(testkit = 'module:Suite' on its class)"
            }
        )


def _offered(named: object, kind: str) -> type[Suite]:
    """The suite that a plugin offers; one that cannot be had is a broken rule."""
    from pz_core.testkit.registration import OfferedSuite

    module, suite, _ = _SUITES[kind]
    base: Any = getattr(importlib.import_module(module), suite)
    try:
        place, _, attribute = str(named).partition(":")
        found: Any = getattr(importlib.import_module(place), attribute)
        if isinstance(found, type) and issubclass(found, base):
            offered = cast("type[Suite]", found)
            if offered.subject() is not None:
                return offered
        reason = f"{named} is no {suite} that says what it tests"
    except Exception as error:  # noqa: BLE001 - a plugin can raise anything
        reason = f"{named} cannot be imported: {type(error).__name__}: {error}"
    return cast("type[Suite]", type("Offered", (OfferedSuite,), {"reason": reason}))


if __name__ == "__main__":
    main(sys.argv)

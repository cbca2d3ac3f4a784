"""Rules of checking a place, of errors, and of secrets."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import quote, quote_plus

from pz_core.contract.connector import CheckReport, ConnectorError, ReadSpec
from pz_core.contract.options import OptionSet
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.asking import caught, sound
from pz_core.testkit.connector_hooks import ABSENT, ConnectorHooks
from pz_core.testkit.rules import NotApplicable, require, rule
from pz_core.values import Value

_SOUNDS_SECRET = re.compile(r"passw|secret|token|credential|passphrase|(^|_)key$|api_key|private_key", re.IGNORECASE)
#: A password of the kind that is cut at signs that mean something to an address, a shell or a template.
CANARY = "pa$$w{0}rd%41@cAn:aRy/#;?&='x\""
#: Seconds that a check of a place may take; ``pz validate --connect`` waits no longer.
_CHECK_LIMIT_S = 30.0


class ErrorRules(ConnectorHooks):
    """Rules of what a connector says when something is wrong, and of what it must never say."""

    @rule("check")
    def a_good_place_is_found_good(self) -> None:
        """check() says that a place which answers is fine, in words."""
        report = self.make().check()
        require(isinstance(report, CheckReport), f"check() gave {type(report).__name__}")
        require(report.ok, f"check() says: {report.message}")

    @rule("check", cases=("unreachable", "broken"))
    def a_bad_place_is_told(self, kind: str) -> None:
        """check() says of a place that cannot be used that it cannot, why, and what to do, in 30 seconds at most."""
        options = self._bad(kind)
        began = time.monotonic()
        try:
            report = self.make(options).check()
        except ConnectorError as error:
            report = CheckReport(False, error.message, error.hint)
        took = time.monotonic() - began
        require(not report.ok, "check() says that it is fine")
        require(report.message and report.hint, f"check() says no reason or no way out: {report}")
        require(took < _CHECK_LIMIT_S, f"check() took {took:.0f} seconds")

    @rule("errors", needs=["reads"])
    def a_missing_entity_is_refused_by_name(self) -> None:
        """A read of an entity that is not there is a coded, final error that names it."""
        self._contracts()[ABSENT] = {"id": "varchar"}
        spec = self.read_spec(ABSENT)
        calls: dict[str, Any] = {f"the {t} read": partial(self.bench().land, spec, t) for t in self.read_tiers()}
        if self.capabilities().universal_read:
            calls["read()"] = lambda: self._read_all(spec)
        for what, call in calls.items():
            error = caught(call)
            require(error is not None, f"{what} of a missing entity succeeded")
            sound(cast(Exception, error), what)
            require(ABSENT in str(error), f"{what} does not name the entity: {error}")
            require(not getattr(error, "transient", False), f"{what} calls it transient, so it would be tried again")

    @rule("errors", cases=("unreachable", "broken"))
    def a_bad_place_fails_in_codes(self, kind: str) -> None:
        """Reading and writing a place that cannot be used are coded errors; one that may answer later is transient."""
        options = self._bad(kind)
        made = self.make(options)
        calls: dict[str, Any] = {}
        if self.capabilities().reads:
            for tier in self.read_tiers():
                calls[f"the {tier} read"] = partial(self.bench(made).land, self.read_spec("t"), tier)
        for strategy in self.strategies()[:1]:
            for tier in self.write_tiers():
                calls[f"the {tier} write"] = partial(
                    self.write, "t", self.pairs((1, "a")), strategy, tier, through=self.make(options)
                )
        for what, call in calls.items():
            self._contracts()["t"] = {"id": "varchar"}
            error = caught(call)
            require(error is not None, f"{what} succeeded")
            sound(cast(Exception, error), what)
            passes = bool(getattr(error, "transient", False))
            require(passes == (kind == "unreachable"), f"{what} is {'' if passes else 'not '}transient: {error}")

    @rule("secrets")
    def secrets_are_declared(self) -> None:
        """An option that sounds like a secret is declared as one, or named in public_options."""
        declared: OptionSet = cast(Any, self.connector).connection_options
        bare = [o.name for o in declared.options if _SOUNDS_SECRET.search(o.name) and not o.secret]
        bare = [name for name in bare if name not in self.public_options]
        require(not bare, f"options that hold secrets and are not declared so: {', '.join(bare)}")

    @rule("secrets")
    def secrets_are_never_shown(self) -> None:
        """A secret stands in no repr, message, hint or plan, neither as it is nor encoded, quoted or cut in half."""
        declared: OptionSet = cast(Any, self.connector).connection_options
        secret = [o.name for o in declared.options if o.secret]
        if not secret:
            raise NotApplicable("the connector declares no secret")
        for base in (self.place(), self.unreachable(), self.broken()):
            if base is None:
                continue
            given = {**base, **{name: CANARY for name in secret if name in base}}
            if not any(name in base for name in secret):
                given = {**base, secret[0]: CANARY}
            for what, text in self._told(given):
                shown = next((form for form in _forms(CANARY) if form in text), None)
                require(shown is None, f"{what} shows the secret")

    @rule("secrets")
    def the_suites_secrets_are_never_shown(self) -> None:
        """The secrets of the place that works are shown nowhere, either."""
        declared: OptionSet = cast(Any, self.connector).connection_options
        held = [str(self.place()[o.name]) for o in declared.options if o.secret and o.name in self.place()]
        held = [text for text in held if len(text) >= 6]
        if not held:
            raise NotApplicable("the suite's options hold no secret of six characters or more")
        for what, text in self._told(self.place()):
            require(not any(secret in text for secret in held), f"{what} shows the secret")

    def _told(self, given: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
        """Everything that a connector says, with what it is."""
        made = self.make(given)
        can = self.capabilities()
        yield "repr() of the connector", repr(made) + str(made)
        for fault in made.validate():
            yield "validate()", _all_of(fault)
        error: BaseException | None = None
        report = None
        try:
            report = made.check()
        except Exception as raised:  # noqa: BLE001 - what it says is looked at
            error = raised
        yield "check()", repr(report) if error is None else _all_of(error)
        if can.reads:
            spec = self.read_spec(ABSENT)
            source = made.open_source()
            yield "repr() of the source", repr(source) + repr(source.native_scan(spec))
            scan = source.native_scan(spec)
            yield "the query of the scan", f"{scan.query} {scan.mechanism} {scan.rejects}" if scan else ""
            source.close()
            for tier in self.read_tiers():
                self._contracts()[ABSENT] = {"id": "varchar"}
                yield f"the error of a {tier} read", _all_of(caught(self.bench(made).land, spec, tier))
        for strategy in self.strategies()[:1]:
            sink = made.open_sink()
            write = self.write_spec(ABSENT, strategy)
            way = sink.native_write(write)
            yield "repr() of the sink", repr(sink) + repr(way)
            sink.close()
            entity = self.entity()
            for tier in self.write_tiers():
                failed = caught(self.write, entity, self.failing(10), strategy, tier, through=made)
                yield f"the error of a {tier} write", _all_of(failed)

    def _read_all(self, spec: ReadSpec) -> None:
        with self.source() as source:
            for part in source.partitions(spec):
                for _ in source.read(spec, part, 10):
                    pass

    def _bad(self, kind: str) -> Mapping[str, Value]:
        options = self.unreachable() if kind == "unreachable" else self.broken()
        if options is None:
            raise NotApplicable(f"the suite names no place in {kind}()")
        return options


def _forms(secret: str) -> tuple[str, ...]:
    """A secret as it is, as it is written in addresses and literals, and its halves."""
    half = len(secret) // 2
    encoded = quote(secret, safe="")
    return (
        secret, encoded, quote(secret), quote_plus(secret), repr(secret)[1:-1], secret.replace("'", "''"),
        secret[:half], secret[half:], encoded[: len(encoded) // 2], encoded[len(encoded) // 2 :],
    )  # fmt: skip


def _all_of(error: BaseException | None) -> str:
    """What a fault says anywhere but in its cause, which is shown under PZ_DEBUG only."""
    if error is None:
        return ""
    told = [str(error), repr(error), str(error.args)]
    for one in error.errors if isinstance(error, PzErrors) else (error,):
        if isinstance(one, PzError):
            told.append(repr(one.as_dict()))
    return "\n".join(told)

"""Rules of what a connector declares, of what it may touch, of its errors, and of secrets."""

from __future__ import annotations

import contextlib
import pickle
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from unittest import mock
from urllib.parse import quote, quote_plus

from pz_core.codes import CODES
from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import CheckReport, Connector, ConnectorError, ReadSpec, Sink, Source
from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.connector_hooks import ABSENT, ConnectorHooks, caught, same_arguments
from pz_core.testkit.rules import Broken, NotApplicable, require, rule
from pz_core.values import Value

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SOUNDS_SECRET = re.compile(r"passw|secret|token|credential|passphrase|(^|_)key$|api_key|private_key", re.IGNORECASE)
#: A password of the kind that is cut at signs that mean something to an address, a shell or a template.
CANARY = "pa$$w{0}rd%41@cAn:aRy/#;?&='x\""
#: Seconds that a check of a place may take; ``pz validate --connect`` waits no longer.
_CHECK_LIMIT_S = 30.0
_ODD_TEXTS = ("", " ", "x" * 10_000, "../../..", "a\0b", "line\nbreak", "ünï 🙂", "'; --", "${HOME}", "~", "0")
_ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30)


class DeclaredRules(ConnectorHooks):
    """Rules that hold for every connector, whatever it can do."""

    @rule("options")
    def the_class_is_a_connector(self) -> None:
        """Name, option sets, abilities and every method of the contract are there."""
        kind = cast(Any, self.connector)
        name = getattr(kind, "name", None)
        require(isinstance(name, str) and _NAME.fullmatch(name), f"name is {name!r}: write [a-z][a-z0-9_]*")
        for part in ("connection_options", "read_options", "write_options"):
            require(isinstance(getattr(kind, part, None), OptionSet), f"{part} is no OptionSet")
        require(isinstance(getattr(kind, "capabilities", None), Capabilities), "capabilities is no Capabilities")
        missing = _missing_methods(kind, Connector)
        require(not missing, f"methods of the contract are missing or take other arguments: {missing}")
        made = self.make()
        for what, opened, protocol, wanted in (
            ("open_source()", made.open_source, Source, self.capabilities().reads),
            ("open_sink()", made.open_sink, Sink, bool(self.capabilities().load_modes)),
        ):
            if not wanted:
                continue
            thing = cast(Any, opened)()
            missing = _missing_methods(type(thing), protocol)
            thing.close()
            require(not missing, f"{what} gives an object whose methods are missing or take other arguments: {missing}")

    @rule("options")
    def the_abilities_fit_together(self) -> None:
        """The record of abilities contradicts itself nowhere, and promises nothing that cannot be had."""
        can = self.capabilities()
        require(can.reads == bool(can.native_read or can.universal_read), "reads needs native_read or universal_read")
        writes = can.native_write or can.universal_write
        require(bool(can.load_modes) == writes, "load_modes and native_write or universal_write go together")
        modes = {"add", "swap", "program", "rewrite"}
        require(can.load_modes <= modes, f"load_modes has words that are no load mode: {sorted(can.load_modes - modes)}")
        unknown = can.schema_policies - set(SCHEMA_POLICIES)
        require(not unknown, f"schema_policies has words that are no policy: {sorted(unknown)}")
        require(
            not can.load_modes or "fail_on_change" in can.schema_policies,
            "schema_policies lacks fail_on_change, which is the default of every strategy of the core",
        )
        for ability, needs in (
            ("column_pruning", "reads"), ("predicate_pushdown", "reads"), ("bounded_window", "reads"),
            ("floor_pushdown", "reads"), ("inclusive_bound", "floor_pushdown"), ("stable_partitions", "partitioned_read"),
            ("partitioned_read", "universal_read"), ("apply_deletes", "load_modes"), ("ledger", "transactional"),
        ):  # fmt: skip
            require(not getattr(can, ability) or getattr(can, needs), f"{ability} is declared without {needs}")

    @rule("options")
    def options_are_documented(self) -> None:
        """Every option has a name, a type, one line of documentation, a default that fits; none is pz's own."""
        kind = cast(Any, self.connector)
        for part in ("connection_options", "read_options", "write_options"):
            declared: OptionSet = getattr(kind, part)
            names = declared.names()
            require(len(set(names)) == len(names), f"{part} declares an option twice")
            for option in declared.options:
                where = f"{part}: option '{option.name}'"
                require(_NAME.fullmatch(option.name), f"{where} is no name: write [a-z][a-z0-9_]*")
                require(option.summary.strip() and "\n" not in option.summary, f"{where} needs a summary of one line")
                require(not (option.required and option.default is not None), f"{where} is required and has a default")
                require(part == "connection_options" or not option.secret, f"{where}: secrets belong to the connection")
        taken = sorted(set(kind.connection_options.names()) & set(RESERVED_CONNECTION_KEYS))
        require(not taken, f"connection options are pz's own keys: {', '.join(taken)} (PZ0345)")

    @rule("options")
    def wrong_options_are_refused(self) -> None:
        """Unknown, missing and mistyped options are each named, and the suite's own are accepted."""
        kind = cast(Any, self.connector)
        declared: OptionSet = kind.connection_options
        given = dict(self.place())
        faults = declared.faults(given, shown=False)
        require(not faults, f"the options of the suite itself are refused: {'; '.join(faults)}")
        require(any("pz_kit_no_option" in f for f in declared.faults({**given, "pz_kit_no_option": 1})), "unknown passed")
        for option in declared.options:
            if option.required:
                without = {k: v for k, v in given.items() if k != option.name}
                require(any(option.name in f for f in declared.faults(without)), f"'{option.name}' may be missing")
            if option.type != "any":
                wrong: Value = {"a": 1} if option.type != "mapping" else "text"
                told = [f for f in declared.faults({**given, option.name: wrong}) if option.name in f]
                require(told, f"'{option.name}' takes a value of another type")
        for spec_faults in (
            kind.read_options.faults(dict(self.read_options("t"))) if self.capabilities().reads else (),
            kind.write_options.faults(dict(self.write_options("t"))) if self.capabilities().load_modes else (),
        ):
            require(not spec_faults, f"the options of the suite itself are refused: {'; '.join(spec_faults)}")

    @rule("options")
    def odd_options_are_answered_in_codes(self) -> None:
        """Options of the right type and an odd value are taken or refused by a code, offline, never by an exception."""
        kind = cast(Any, self.connector)
        for option, value in _odd(kind.connection_options, self.place()):
            given = {**self.place(), option: value}
            self._answers(f"option '{option}' with an odd value", lambda g=given: self.make(g).validate())
        made = self.make()
        entity = self.entity()
        if self.capabilities().reads:
            spec = self.read_spec(entity)
            for option, value in _odd(kind.read_options, spec.options):
                odd = replace(spec, options={**spec.options, option: value})
                self._answers(f"read option '{option}' with an odd value", lambda o=odd: made.validate_read(o))
            for name in _ODD_TEXTS:
                odd = replace(spec, entity=name)
                self._answers(f"a read of an entity named {name[:20]!r}", lambda o=odd: made.validate_read(o))
        for strategy in self.strategies()[:1]:
            write = self.write_spec(entity, strategy)
            for option, value in _odd(kind.write_options, write.options):
                other = replace(write, options={**write.options, option: value})
                self._answers(f"write option '{option}' with an odd value", lambda o=other: made.validate_write(o))
            for name in _ODD_TEXTS:
                other = replace(write, entity=name)
                self._answers(f"a write of an entity named {name[:20]!r}", lambda o=other: made.validate_write(o))

    def _answers(self, what: str, ask: Callable[[], Iterable[PzError]]) -> None:
        """A validation gives coded faults, or raises one; nothing else comes out of it."""
        try:
            with _offline():
                faults = list(ask())
        except (PzError, PzErrors) as error:
            self._sound(error, what)
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{what} raised {type(error).__name__}: {error}") from error
        else:
            for fault in faults:
                require(isinstance(fault, PzError), f"{what} is answered with a {type(fault).__name__}, not a PzError")
                self._sound(fault, what)

    @rule("options")
    def making_and_planning_touch_nothing(self) -> None:
        """Instances, validation, native_scan() and native_write() are offline, change no file, and answer alike twice."""
        before = _tree(self.project)
        options = self.unreachable() or self.place()
        before = _tree(self.project) if self.unreachable() is None else before
        can = self.capabilities()
        with _offline():
            made = self.make(options)
            made.validate()
            if can.reads:
                spec = self.read_spec(self.entity())
                require(not list(made.validate_read(spec)), "validate_read() refuses a plain read")
                source = made.open_source()
                require(source.native_scan(spec) == source.native_scan(spec), "native_scan() answers two ways")
                require(source.natural_shape(spec) in ("full", "feed"), "natural_shape() is neither full nor feed")
                if not can.native_read:
                    require(source.native_scan(spec) is None, "a scan is offered though native_read is not declared")
                source.close()
            for strategy in self.strategies():
                write = self.write_spec(self.entity(), strategy)
                require(not list(made.validate_write(write)), f"validate_write() refuses a plain {strategy}")
                sink = made.open_sink()
                require(sink.native_write(write) == sink.native_write(write), "native_write() answers two ways")
                if not can.native_write:
                    require(sink.native_write(write) is None, "a way is offered though native_write is not declared")
                sink.close()
        after = _tree(self.project)
        require(before == after, f"planning made or changed files: {sorted(set(after) ^ set(before))}")

    @rule("options", needs=["load_modes"])
    def places_are_told_apart(self) -> None:
        """write_place(), where a connector has it, is one text for one entity and another for another."""
        made = self.make()
        place = getattr(made, "write_place", None)
        if place is None:
            raise NotApplicable("the connector does not say where a write ends up")
        one, two = self.entity("a"), self.entity("b")
        strategy = self.strategies()[0]
        told = [place(self.write_spec(e, strategy)) for e in (one, one, two)]
        require(all(isinstance(t, str) for t in told), "write_place() gave something else than a text")
        require(told[0] == told[1], "one entity has two places")
        require(told[0] != told[2], "two entities have one place")
        require(self.make().write_place(self.write_spec(one, strategy)) == told[0], "it changes with the instance")  # type: ignore[attr-defined]

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
        calls: dict[str, Any] = {f"the {t} read": lambda t=t: self.bench().land(spec, t) for t in self.read_tiers()}
        if self.capabilities().universal_read:
            calls["read()"] = lambda: self._read_all(spec)
        for what, call in calls.items():
            error = caught(call)
            require(error is not None, f"{what} of a missing entity succeeded")
            self._sound(cast(Exception, error), what)
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
                calls[f"the {tier} read"] = lambda t=tier: self.bench(made).land(self.read_spec("t"), t)
        for strategy in self.strategies()[:1]:
            for tier in self.write_tiers():
                calls[f"the {tier} write"] = lambda t=tier, s=strategy: self.write(
                    "t", self.pairs((1, "a")), s, t, through=self.make(options)
                )
        for what, call in calls.items():
            self._contracts()["t"] = {"id": "varchar"}
            error = caught(call)
            require(error is not None, f"{what} succeeded")
            self._sound(cast(Exception, error), what)
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
                yield f"the error of a {tier} read", _all_of(caught(lambda t=tier: self.bench(made).land(spec, t)))
        for strategy in self.strategies()[:1]:
            sink = made.open_sink()
            write = self.write_spec(ABSENT, strategy)
            way = sink.native_write(write)
            yield "repr() of the sink", repr(sink) + repr(way)
            sink.close()
            entity = self.entity()
            for tier in self.write_tiers():
                failed = caught(lambda t=tier: self.write(entity, self.failing(10), strategy, t, through=made))
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

    def _sound(self, error: Exception, what: str) -> None:
        """Whether an error is one that a user can be shown and that may cross processes."""
        for one in error.errors if isinstance(error, PzErrors) else (error,):
            require(isinstance(one, PzError), f"{what} let a foreign {type(one).__name__} out: {one}")
            coded = cast(PzError, one)
            require(coded.code in CODES, f"{what} has a code that is in no table: {coded.code}")
            require(coded.message, f"{what}: {coded.code} says nothing")
            require(coded.hint, f"{what}: {coded.code} says no way out: {coded.message}")
            require("Traceback" not in coded.message, f"{what}: a stack trace stands in the message")
            again = pickle.loads(pickle.dumps(coded))  # noqa: S301 - made a line above
            require(again.as_dict() == coded.as_dict(), f"{what}: the error is another one in another process")


def _missing_methods(kind: Any, protocol: Any) -> list[str]:
    found = []
    for name, ours in vars(protocol).items():
        if name.startswith("_") or not callable(ours):
            continue
        theirs = getattr(kind, name, None)
        if not callable(theirs) or not same_arguments(_unbound(theirs), ours):
            found.append(name)
    return found


def _unbound(function: Any) -> Any:
    """The function without its ``self``, as an instance has it."""
    import functools

    try:
        return functools.partial(function, None)
    except TypeError:
        return function


def _odd(declared: OptionSet, given: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Options with values that are of their type and nothing that anybody would mean."""
    for option in declared.options:
        for value in _odd_values(option):
            if not declared.faults({**given, option.name: value}):
                yield option.name, value


def _odd_values(option: Option) -> tuple[Value, ...]:
    if option.choices:
        return ()
    if option.type == "string":
        return _ODD_TEXTS
    if option.type == "integer":
        return _ODD_NUMBERS
    if option.type == "number":
        return (*_ODD_NUMBERS, 0.5, 1e308)
    if option.type == "list":
        return ([], [""], ["a", "a"])
    return ({}, {"": ""}) if option.type == "mapping" else ()


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


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Let nothing leave the process."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Broken("the network was used where everything must be offline")

    with (
        mock.patch.object(socket.socket, "connect", refuse),
        mock.patch.object(socket.socket, "connect_ex", refuse),
        mock.patch.object(socket, "getaddrinfo", refuse),
    ):
        yield


def _tree(folder: Any) -> dict[str, tuple[int, int]]:
    return {
        str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() or p.is_dir()
    }


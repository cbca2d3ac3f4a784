"""Rules of what a connector declares, of what it may touch, of its errors, and of secrets."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from unittest import mock

from msgspec.structs import replace

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import Connector, Sink, Source
from pz_core.contract.load import SCHEMA_POLICIES
from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.asking import same_arguments, sound
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.rules import Broken, NotApplicable, require, rule
from pz_core.values import Value

_NAME = re.compile(r"[a-z][a-z0-9_]*")
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
        require(
            can.load_modes <= modes, f"load_modes has words that are no load mode: {sorted(can.load_modes - modes)}"
        )
        unknown = can.schema_policies - set(SCHEMA_POLICIES)
        require(not unknown, f"schema_policies has words that are no policy: {sorted(unknown)}")
        require(
            not can.load_modes or "fail_on_change" in can.schema_policies,
            "schema_policies lacks fail_on_change, which is the default of every strategy of the core",
        )
        for ability, needs in (
            ("column_pruning", "reads"), ("predicate_pushdown", "reads"), ("bounded_window", "reads"),
            ("floor_pushdown", "reads"), ("inclusive_bound", "floor_pushdown"),
            ("stable_partitions", "partitioned_read"),
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
        require(
            any("pz_kit_no_option" in f for f in declared.faults({**given, "pz_kit_no_option": 1})), "unknown passed"
        )
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
            self._answers(f"option '{option}' with an odd value", self.make, given)
        made = self.make()
        entity = self.entity()
        if self.capabilities().reads:
            spec = self.read_spec(entity)
            for option, value in _odd(kind.read_options, spec.options):
                odd = replace(spec, options={**spec.options, option: value})
                self._answers(f"read option '{option}' with an odd value", made.validate_read, odd)
            for name in _ODD_TEXTS:
                odd = replace(spec, entity=name)
                self._answers(f"a read of an entity named {name[:20]!r}", made.validate_read, odd)
        for strategy in self.strategies()[:1]:
            write = self.write_spec(entity, strategy)
            for option, value in _odd(kind.write_options, write.options):
                other = replace(write, options={**write.options, option: value})
                self._answers(f"write option '{option}' with an odd value", made.validate_write, other)
            for name in _ODD_TEXTS:
                other = replace(write, entity=name)
                self._answers(f"a write of an entity named {name[:20]!r}", made.validate_write, other)

    def _answers(self, what: str, ask: Callable[..., Any], subject: Any) -> None:
        """A validation gives coded faults, or raises one; nothing else comes out of it."""
        try:
            with _offline():
                made = ask(subject)
                faults = list(made.validate() if hasattr(made, "validate") else made)
        except (PzError, PzErrors) as error:
            sound(error, what)
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{what} raised {type(error).__name__}: {error}") from error
        else:
            for fault in faults:
                require(isinstance(fault, PzError), f"{what} is answered with a {type(fault).__name__}, not a PzError")
                sound(fault, what)

    @rule("options")
    def making_and_planning_touch_nothing(self) -> None:
        """Instances, validation and the native ways are told offline, change no file, and are the same twice."""
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

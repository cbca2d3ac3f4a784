"""Rules of values and names: they arrive exactly, or are refused by name."""

from __future__ import annotations

import contextlib
import locale
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from pz_core.contract.engine import Tier
from pz_core.errors import PzError, PzErrors
from pz_core.testkit import corpus
from pz_core.testkit.asking import caught, refused_by_name
from pz_core.testkit.connector_hooks import ConnectorHooks
from pz_core.testkit.corpus import arrow_table
from pz_core.testkit.rows import Rows
from pz_core.testkit.rules import Broken, NotApplicable, require, rule


class ValueRules(ConnectorHooks):
    """Rules that hold for a connector that can be written, or that the suite can put rows into."""

    @rule("values", needs=["load_modes"], cases=lambda suite: ("plain", *suite.odd_samples()))
    def values_arrive_exactly_or_are_refused(self, name: str) -> None:
        """Each sample of the hostile corpus comes back unchanged, or is refused by a code that names the column.

        A place that holds a type must carry the plain samples of it.
        """
        if name != "plain":
            self._carries(name)
            return
        plain = [s for s in corpus.SAMPLES if s.plain and self.holds(s.word or "")]
        table = arrow_table(corpus.together(plain))
        if caught(lambda: self._arrives(table)) is None:
            return
        for each in plain:  # something was changed or refused: which of them, and how?
            self._carries(each.name)
        self._arrives(table)

    @classmethod
    def odd_samples(cls) -> tuple[str, ...]:
        """Samples that the place may refuse: of types that it need not hold, and of values that are hard to hold."""
        return tuple(
            s.name
            for s in corpus.SAMPLES
            if not (s.plain and cls.holds(s.word or "")) and not (cls.contract and s.word is None)
        )

    def _arrives(self, table: Any) -> None:
        strategy = self.strategies()[0]
        for tier in self.write_tiers():
            entity = self.entity("v")
            self.write(entity, table, strategy, tier)
            for what, look in self._looks(entity):
                self.sent(table).must_be(look() or Rows((), ()), what=f"{tier} write, {what}")

    def _carries(self, name: str) -> None:
        sample = corpus.sample(name)
        must = sample.plain and self.holds(sample.word or "")
        table = sample.table()
        strategy = self.strategies()[0]
        for tier in self.write_tiers():
            entity = self.entity("v")
            error = caught(self.write, entity, table, strategy, tier)
            if error is not None:
                self._refused(error, sample.name, must, f"the {tier} write", "v")
                require(not self.found(entity), f"rows are there though the {tier} write was refused")
                continue
            for what, look in self._looks(entity):
                rows = self._seen(look, sample.name, must, what)
                if rows is not None:
                    self.sent(table).must_be(rows, what=f"{sample.name}, {tier} write, {what}")

    def _looks(self, entity: str) -> list[tuple[str, Any]]:
        looks: list[tuple[str, Any]] = [(f"{t} read", partial(self.found, entity, t)) for t in self.read_tiers()]
        if type(self).fetch is not ConnectorHooks.fetch or not looks:
            looks.append(("the suite's own look", partial(self.found, entity)))
        return looks

    def _seen(self, look: Any, name: str, must: bool, what: str) -> Rows | None:
        try:
            rows = look()
        except (PzError, PzErrors) as error:
            self._refused(error, name, must, f"the {what}", "v")
            return None
        if rows is None:
            raise Broken(f"{what}: the entity is not there")
        return cast(Rows, rows)

    def _refused(self, error: Exception, name: str, must: bool, what: str, column: str) -> None:
        wrong = refused_by_name(error, column)
        if wrong is not None:
            raise Broken(f"{name}: {what} failed without naming the column by a code of its own: {wrong}") from error
        if must:
            raise Broken(f"{name}: {what} was refused, though the place holds the type: {error}") from error

    @rule("values", needs=["universal_read"], cases=lambda suite: () if suite.contract else ("as it is",))
    def what_is_put_there_is_read_exactly(self, _: str) -> None:
        """Each plain sample that the suite puts there by its own means is read unchanged."""
        if type(self).put is ConnectorHooks.put:
            raise NotApplicable("the suite has no way of its own to put rows there")
        plain = [s for s in corpus.SAMPLES if s.plain and self.holds(s.word or "")]
        table = arrow_table(corpus.together(plain))
        entity = self.entity("v")
        self.given(entity, table)
        for tier in self.read_tiers():
            rows = self.bench().land(self.read_spec(entity), tier).rows
            self.sent(table).must_be(rows, what=f"what was put there, {tier} read")

    @rule("names", needs=["load_modes"], cases=lambda suite: suite.write_tiers())
    def columns_may_have_any_name(self, tier: Tier) -> None:
        """A column of any name keeps it, or is refused by a code that names it."""
        strategy = self.strategies()[0]
        if self._carried(corpus.COLUMN_NAMES, strategy, tier) is None:
            return
        for name in corpus.COLUMN_NAMES:  # one of them was refused, or lost: which, and how?
            error = self._carried((name,), strategy, tier)
            if isinstance(error, Broken):
                raise error
            if error is not None:
                wrong = refused_by_name(error, name)
                require(wrong is None, f"a column named {name!r}: {wrong}")

    @rule("names", needs=["load_modes"], cases=lambda suite: suite.write_tiers())
    def long_columns_are_kept_or_refused(self, tier: Tier) -> None:
        """A long name is kept whole or refused; it is never cut."""
        for name in corpus.LONG_NAMES:
            error = self._carried((name,), self.strategies()[0], tier)
            if isinstance(error, Broken):
                raise error
            if error is not None:
                wrong = refused_by_name(error, name[:40])
                require(wrong is None, f"a column of {len(name)} characters: {wrong}")

    def _carried(self, names: tuple[str, ...], strategy: str, tier: Tier) -> Exception | None:
        """What goes wrong with columns of these names."""
        entity = self.entity("c")
        table = arrow_table(self.named_columns_query(names))

        def carry() -> None:
            self.write(entity, table, strategy, tier)
            for read in self.read_tiers() or (None,):
                rows = self.found(entity, read)
                self.sent(table).must_be(rows or Rows((), ()), what=f"columns {', '.join(map(repr, names[:3]))}")

        return caught(carry)

    def named_columns_query(self, names: tuple[str, ...]) -> str:
        """A SELECT whose columns have these names, in a type that the place can hold."""
        if self.id_type() == "VARCHAR":
            return f"SELECT COLUMNS(*)::VARCHAR FROM ({corpus.named_columns(names)})"
        return f"SELECT CAST(COLUMNS(*) AS {self.id_type()}) FROM ({corpus.named_columns(names)})"

    @rule("names", needs=["load_modes"], cases=tuple(corpus.ENTITY_NAMES))
    def entities_may_have_any_name(self, kind: str) -> None:
        """An entity of any name is written and read under just that name, or refused by a code."""
        token = self.entity("").lstrip("_")
        entity = corpus.ENTITY_NAMES[kind].replace("{}", token, 1)
        rows, others = self.pairs((1, "a"), (2, None)), self.pairs((9, "z"))
        bystander = self.entity("b")
        strategy = self.strategies()[0]
        self.write(bystander, others, strategy, self.write_tiers()[-1])
        for tier in self.write_tiers():
            try:
                self.write(entity, rows, "replace" if "replace" in self.strategies() else strategy, tier)
                found = [self.found(entity, t) for t in self.read_tiers()] or [self.found(entity)]
            except (PzError, PzErrors) as error:
                wrong = refused_by_name(error)
                require(wrong is None, f"the entity {entity!r}: {wrong}")
                continue
            if "replace" not in self.strategies() and tier != self.write_tiers()[0]:
                continue
            for seen in found:
                self.sent(rows).must_be(seen or Rows((), ()), what=f"entity {entity!r}")
        self.sent(others).must_be(self.found(bystander) or Rows((), ()), what="an entity beside it")

    @rule("values", needs=["load_modes"])
    def the_machine_does_not_matter(self) -> None:
        """Neither the time zone nor the locale of the machine changes what is written or read."""
        entity, table = self.entity(), self.dataset()
        strategy = self.strategies()[0]
        for zone in ("America/New_York", "Asia/Kathmandu"):
            with _machine(zone):
                for tier in self.write_tiers():
                    target = f"{entity}_{tier}_{zone[:4].lower()}"
                    self.write(target, table, strategy, tier)
                    for read in self.read_tiers():
                        rows = self.found(target, read) or Rows((), ())
                        self.sent(table).must_be(rows, what=f"{tier} write and {read} read under {zone}")


@contextlib.contextmanager
def _machine(zone: str) -> Iterator[None]:
    """Another time zone, and another locale where the system has one, for this process."""
    before, numbers = os.environ.get("TZ"), locale.setlocale(locale.LC_ALL)
    os.environ["TZ"] = zone
    if hasattr(time, "tzset"):
        time.tzset()
    for name in ("de_DE.UTF-8", "tr_TR.UTF-8"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
            break
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        if hasattr(time, "tzset"):
            time.tzset()
        locale.setlocale(locale.LC_ALL, numbers)

"""The suite for strategies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from pz_core.codes import CODES
from pz_core.contract.options import OptionSet
from pz_core.contract.strategy import LoadRequest, Probe, Strategy, StrategyTraits
from pz_core.errors import PzError
from pz_core.testkit import corpus
from pz_core.testkit.asking import caught, same_arguments
from pz_core.testkit.database import DatabaseSuite
from pz_core.testkit.rows import Rows, read_rows, same_rows
from pz_core.testkit.rules import NotApplicable, codes_of, require, rule
from pz_core.values import Column, Value, quote_identifier, quote_path

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MODES = {"add", "swap", "program", "rewrite"}
COLUMNS = (Column("id", "BIGINT"), Column("label", "VARCHAR"))
RUN_ID, STARTED_AT = "20260101T000000000Z-0001", "2026-01-01T00:00:00.000000Z"

Row = tuple[int | None, str | None]


class StrategySuite(DatabaseSuite):
    """What every strategy owes: a program in SQL that does what its traits say, for any names and any values.

    Subclass it in a test file and name the strategy::

        class TestUpsert(StrategySuite):
            strategy = Upsert
    """

    strategy: ClassVar[type[Any] | None] = None
    """The class that the registration's target names."""

    own_columns: ClassVar[frozenset[str]] = frozenset()
    """Columns that the strategy itself keeps in a target, and that are not compared."""

    one_row_a_key: ClassVar[bool] = True
    """Whether a target holds one row a key in the end; not so for a strategy that keeps history."""

    def options(self) -> Mapping[str, Value]:
        """Hook: the strategy's own options."""
        return {}

    def target_columns(self, columns: Sequence[Column]) -> Sequence[Column]:
        """Hook: columns of a target that the strategy finds, for one that keeps more than the batch has."""
        return columns

    # --- from here on: what rules use -----------------------------------------------------------------------------

    @classmethod
    def subject(cls) -> str | None:
        """The strategy's name."""
        return None if cls.strategy is None else str(getattr(cls.strategy, "name", cls.strategy.__name__))

    @classmethod
    def traits(cls) -> StrategyTraits:
        """The strategy's own."""
        return cast(StrategyTraits, cast(Any, cls.strategy).traits)

    def make(self) -> Strategy:
        """An instance."""
        return cast(Strategy, cast(Any, self.strategy)())

    @rule("declared")
    def the_class_is_a_strategy(self) -> None:
        """Name, options, traits and every method of the contract are there, and the traits fit together."""
        kind = cast(Any, self.strategy)
        require(_NAME.fullmatch(str(getattr(kind, "name", ""))), "name is no name: write [a-z][a-z0-9_]*")
        require(isinstance(getattr(kind, "options", None), OptionSet), "options is no OptionSet")
        require(isinstance(getattr(kind, "traits", None), StrategyTraits), "traits is no StrategyTraits")
        modes = self.traits().load_modes
        require(modes and set(modes) <= _MODES, f"load_modes is {modes}: name some of {', '.join(sorted(_MODES))}")
        require(len(set(modes)) == len(modes), "load_modes names one twice")
        made = self.make()
        for name in ("probes", "program"):
            method = getattr(made, name, None)
            require(
                callable(method) and same_arguments(cast(Any, method), getattr(Strategy, name)),
                f"{name}() is missing or takes other arguments",
            )
        for option in kind.options.options:
            require(
                _NAME.fullmatch(option.name) and option.summary.strip(), f"option '{option.name}' is not documented"
            )
        faults = kind.options.faults(dict(self.options()))
        require(not faults, f"the options of the suite itself are refused: {'; '.join(faults)}")

    @rule("program")
    def the_program_is_sql_and_always_the_same(self) -> None:
        """Probes and program are texts of one statement each, and the same for the same request."""
        self._given([(1, "a")], [(1, "b")])
        request = self._request()
        made = self.make()
        program, probes = made.program(request), made.probes(request)
        require(program == self.make().program(request), "the program differs between two calls")
        require(probes == self.make().probes(request), "the probes differ between two calls")
        require(program and all(isinstance(sql, str) for sql in program), "the program is no list of texts")
        for sql in (*program, *(p.sql for p in probes)):
            require(len(self._database.extract_statements(sql)) == 1, f"not one statement: {sql}")

    @rule("program")
    def probes_count_and_tell(self) -> None:
        """Every probe gives one row that begins with a count, and a registered code with a way out."""
        self._given([(1, "a"), (2, "b")], [])
        for probe in self.make().probes(self._request(output='braces{}.it"s')):
            require(probe.code in CODES, f"code {probe.code} is in no table")
            require(probe.severity in ("error", "warning"), f"{probe.code}: severity is {probe.severity}")
            rows = self._database.execute(probe.sql).fetchall()
            require(len(rows) == 1, f"{probe.code}: the probe gives {len(rows)} rows")
            require(isinstance(rows[0][0], int), f"{probe.code}: the first column is no count")
            require(rows[0][0] == 0, f"{probe.code} trips on a batch that is fine")
            require(len(probe.fields) in (0, len(rows[0])), f"{probe.code}: fields name other columns than the row has")
            error = caught(probe.message.format, *rows[0])
            require(error is None, f"{probe.code}: the message cannot be filled in: {error}")
            require(probe.severity == "warning" or probe.hint, f"{probe.code} says no way out")

    @rule("program")
    def a_first_batch_is_there_afterwards(self) -> None:
        """Into an empty target the program brings the batch, NULL and empty text apart."""
        batch: list[Row] = [(1, "a"), (2, None), (3, "")]
        self._given(batch, [])
        self._load()
        self._holds(batch, "after a first batch")

    @rule("program")
    def no_rows_are_a_batch_too(self) -> None:
        """An empty batch runs; what needs no complete batch leaves the target as it was."""
        old: list[Row] = [(1, "a"), (2, None)]
        self._given([], old)
        self._load()
        if not self.traits().needs_complete_batch:
            self._holds(old, "after an empty batch")

    @rule("program")
    def rows_that_the_batch_lacks_stay(self) -> None:
        """Where the batch need not be complete, rows of the target that it lacks stay as they are."""
        if self.traits().needs_complete_batch:
            raise NotApplicable("the strategy needs a complete batch")
        self._given([(2, "new"), (3, "c")], [(1, "a")])
        self._load()
        rows = self._target()
        require(("1", "a") in rows.texts, f"row 1 is gone: {rows.texts}")
        require(("2", "new") in rows.texts and ("3", "c") in rows.texts, f"rows of the batch are missing: {rows.texts}")

    @rule("program")
    def the_traits_say_what_happens_twice(self) -> None:
        """An idempotent strategy gives the same target for the same batch again; another one does not claim to."""
        self._given([(1, "x"), (2, None), (4, "")], [(1, "a"), (3, "c")])
        self._load()
        once = self._target()
        self._load()
        twice = self._target()
        if self.traits().idempotent:
            same_rows(once, twice, what="the same batch again")
        else:
            require(sorted(map(str, once.texts)) != sorted(map(str, twice.texts)), "idempotent could be declared")

    @rule("program")
    def keys_are_updated_and_inserted(self) -> None:
        """A keyed strategy changes rows of a key that is there, and adds the others."""
        self._keyed()
        self._given([(1, "new"), (3, None)], [(1, "old"), (2, "stays")])
        self._load()
        rows = self._target()
        require(("1", "new") in rows.texts and ("3", None) in rows.texts, f"the batch is not there: {rows.texts}")
        if self.one_row_a_key:
            require(("1", "old") not in rows.texts, "the old row of key 1 is still there")

    @rule("program")
    def the_last_of_a_key_is_kept(self) -> None:
        """Of several rows of one key, the last in the order of arrival is the one that counts."""
        self._keyed()
        if not self.one_row_a_key:
            raise NotApplicable("the strategy keeps more than one row a key")
        for descending in (False, True):
            self._given([(1, "x"), (2, "a"), (1, "y"), (1, "z"), (2, "b")], [])
            self._load(order="(-rowid)" if descending else "rowid")
            wanted: list[Row] = [(1, "x"), (2, "a")] if descending else [(1, "z"), (2, "b")]
            self._holds(wanted, "after a batch with repeated keys")

    @rule("program")
    def keys_that_are_missing_are_refused(self) -> None:
        """A keyed strategy without keys, or with one that the batch has not, is PZ0209."""
        self._keyed()
        self._given([(1, "a")], [])
        for keys in ((), ("absent",)):
            request = self._request(keys=keys)
            error = caught(self.make().probes, request) or caught(self.make().program, request)
            require(error is not None and "PZ0209" in codes_of(error), f"keys {keys} were answered with {error!r}")

    @rule("program")
    def keys_that_are_null_are_refused(self) -> None:
        """NULL in a key trips a probe that fails the load, with PZ0521."""
        self._keyed()
        self._given([(1, "a"), (None, "b")], [])
        tripped = [p for p in self.make().probes(self._request()) if p.severity == "error" and self._trips(p)]
        require(tripped, "no probe fails the load")
        require(any(p.code == "PZ0521" for p in tripped), f"the codes are {[p.code for p in tripped]}")

    @rule("program")
    def keys_are_found_in_any_case(self) -> None:
        """A key that differs from its column only in case is that column."""
        self._keyed()
        self._given([(1, "new")], [(1, "old")])
        self._load(keys=("ID",))
        require(("1", "new") in self._target().texts, "the row of key 1 was not changed")

    @rule("names", cases=corpus.COLUMN_NAMES)
    def columns_may_have_any_name(self, name: str) -> None:
        """Columns and keys of any name are loaded, and no name of the strategy's own is in the way."""
        key = f"{name} key"
        columns = (Column(key, "BIGINT"), Column(name, "VARCHAR"))
        self._tables(columns, [(1, "x"), (2, None)], [(1, "a")])
        self._load(columns=columns, keys=(key,) if self.traits().takes_keys else ())
        rows = self._target()
        require(set(rows.names) >= {key, name}, f"columns are {rows.names}")
        require(("1", "x") in rows.only((key, name)).texts, f"the batch is not there: {rows.texts}")

    @rule("names")
    def relations_may_have_any_name(self) -> None:
        """Staged rows and target of any name are found: both come quoted, and are used as they come."""
        self._given([(1, "x")], [(2, "b")], staged='sta"ged; --', target="ta'rget select")
        self._load()
        require(("1", "x") in self._target().texts, "the batch is not there")

    @rule("values")
    def values_pass_unchanged(self) -> None:
        """Values of every type pass through the program unchanged."""
        samples = [s for s in corpus.SAMPLES if s.word != "json"]
        query = corpus.together(samples)
        for table in ("staged", "target"):
            self._database.execute(
                f"CREATE TABLE {self._name(table)} AS "
                f"SELECT CAST(row_number() OVER () AS BIGINT) AS id, * FROM ({query})"
                f"{'' if table == 'staged' else ' LIMIT 0'}"
            )
        self._names = ("staged", "target")
        columns = tuple(
            Column(r[0], r[1]) for r in self._database.execute(f"DESCRIBE {self._name('staged')}").fetchall()
        )
        self._load(columns=columns)
        sent = read_rows(self._database, self._name("staged"))
        same_rows(sent, self._target().only(sent.names), what="what the target holds")

    @rule("program")
    def the_program_can_be_said_elsewhere(self) -> None:
        """Where the strategy can run inside a database, its program is SQL that other databases can be told."""
        if "program" not in self.traits().load_modes:
            raise NotApplicable("the strategy does not run inside a database")
        from pz_core.engines.duckdb.dialect import translate

        self._given([(1, "a")], [])
        error = caught(lambda: translate(self.make().program(self._request()), "postgres"))
        require(error is None, f"it cannot be said in PostgreSQL's SQL: {error}")

    # --- tables ---------------------------------------------------------------------------------------------------

    def _keyed(self) -> None:
        if not self.traits().takes_keys:
            raise NotApplicable("the strategy takes no keys")

    def _name(self, table: str) -> str:
        return quote_path(self._schema, table)

    def _given(
        self, batch: Sequence[Row], old: Sequence[Row], *, staged: str = "staged", target: str = "target"
    ) -> None:
        self._tables(COLUMNS, batch, old, staged=staged, target=target)

    def _tables(
        self,
        columns: Sequence[Column],
        batch: Sequence[Row],
        old: Sequence[Row],
        *,
        staged: str = "staged",
        target: str = "target",
    ) -> None:
        self._names = (staged, target)
        self._columns = tuple(columns)
        for name, kinds, rows in ((staged, columns, batch), (target, self.target_columns(columns), ())):
            body = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in kinds)
            self._database.execute(f"CREATE OR REPLACE TABLE {self._name(name)} ({body})")
            for row in rows:
                self._database.execute(f"INSERT INTO {self._name(name)} VALUES (?, ?)", list(row))
        if old:
            self._fill(old)

    def _fill(self, old: Sequence[Row]) -> None:
        """Let the strategy itself make the old content, as it would have been made."""
        staged = self._name(self._names[0])
        self._database.execute(f"CREATE OR REPLACE TEMP TABLE kit_batch AS SELECT * FROM {staged}")
        self._database.execute(f"DELETE FROM {staged}")
        for row in old:
            self._database.execute(f"INSERT INTO {staged} VALUES (?, ?)", list(row))
        self._load(columns=self._columns, keys=(self._columns[0].name,) if self.traits().takes_keys else ())
        self._database.execute(f"CREATE OR REPLACE TABLE {staged} AS SELECT * FROM kit_batch")
        self._database.execute("DROP TABLE kit_batch")

    def _request(self, **more: Any) -> LoadRequest:
        made: dict[str, Any] = {
            "output": "kit.t",
            "staged": self._name(self._names[0]),
            "target": self._name(self._names[1]),
            "columns": COLUMNS,
            "keys": ("id",) if self.traits().takes_keys else (),
            "options": dict(self.options()),
            "run_id": RUN_ID,
            "started_at": STARTED_AT,
            "source_system": "shop",
        }
        return LoadRequest(**{**made, **more})

    def _load(self, **more: Any) -> None:
        request = self._request(**more)
        made = self.make()
        for probe in made.probes(request):
            if probe.severity == "error" and self._trips(probe):
                raise PzError(probe.code, probe.message, hint=probe.hint)
        self._database.execute("BEGIN TRANSACTION")
        try:
            for sql in made.program(request):
                self._database.execute(sql)
        except Exception:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _trips(self, probe: Probe) -> bool:
        row = self._database.execute(probe.sql).fetchone()
        return bool(row and row[0])

    def _target(self) -> Rows:
        rows = read_rows(self._database, self._name(self._names[1]))
        return rows.only([n for n in rows.names if n not in self.own_columns])

    def _holds(self, wanted: Sequence[Row], what: str) -> None:
        texts = tuple((None if n is None else str(n), t) for n, t in wanted)
        same_rows(Rows(COLUMNS, texts), self._target().only(("id", "label")), what=what)

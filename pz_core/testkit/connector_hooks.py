"""What the author of a connector tells the suite, and the short ways that its rules use."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pz_core.contract.capabilities import Capabilities, LoadMode
from pz_core.contract.connector import (
    ConnectionConfig,
    Connector,
    ReadSpec,
    Sink,
    Source,
    WriteSpec,
)
from pz_core.contract.engine import Tier
from pz_core.contract.secrets import Secret
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.asking import caught, rows_of, strategy_of, word_of
from pz_core.testkit.bench import Bench, KitControl
from pz_core.testkit.corpus import arrow_table, memory_database
from pz_core.testkit.rows import Rows, Sent, described
from pz_core.testkit.rules import Rule, Suite
from pz_core.values import CONTRACT_TYPES, Value, duckdb_type, quote_identifier, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

#: Every word of ``columns:``.
ALL_TYPES: frozenset[str] = frozenset(CONTRACT_TYPES)

#: What an entity is called that no place has.
ABSENT = "pz_kit_absent"

#: Strategies that the core ships; a connector is tested with those that it can be loaded by.
STRATEGIES: tuple[str, ...] = ("replace", "append", "merge")
#: Column -> word and SQL of the rows that reads are tested with, in the order of their rows.
_DATASET: dict[str, tuple[str, tuple[str, ...]]] = {
    "id": ("bigint", ("1", "2", "3", "4", "5", "6", "7", "9007199254740993")),
    "n": ("int", ("10", "20", "20", "30", "NULL", "40", "20", "NULL")),
    "at": (
        "timestamp",
        (
            "'2026-01-01 00:00:00'", "'2026-01-02 00:00:00'", "'2026-01-02 00:00:00'", "'2026-01-02 00:00:00.000001'",
            "NULL", "'2026-01-04 23:59:59.999999'", "'2026-01-02 00:00:00'", "NULL",
        ),
    ),
    "zoned": (
        "timestamptz",
        (
            "'2026-01-01 01:00:00+01'", "'2026-01-02 00:00:00+00'", "'2026-01-01 19:00:00-05'",
            "'2026-01-02 00:00:00.000001+00'", "NULL", "'2026-01-05 00:00:00+00'", "'2026-01-02 05:30:00+05:30'",
            "NULL",
        ),
    ),
    "day": (
        "date",
        (
            "'2026-01-01'", "'2026-01-02'", "'2026-01-02'", "'2026-01-03'", "NULL", "'2026-01-05'", "'2026-01-02'",
            "NULL",
        ),
    ),
    "amount": ("decimal(18,3)", ("1.100", "2.200", "2.200", "2.201", "NULL", "999999.999", "2.200", "-0.001")),
    "ratio": ("double", ("0.1", "NULL", "1e300", "-0.5", "0.0", "2.5", "0.30000000000000004", "5e-324")),
    "label": ("varchar", ("'a'", "''", "NULL", "'it''s \"so\"'", "'Größe'", "'A'", "'line\nbreak'", "' '")),
    "flag": ("boolean", ("true", "false", "NULL", "true", "false", "NULL", "true", "false")),
}  # fmt: skip

CURSORS: tuple[str, ...] = ("id", "n", "at", "zoned", "day", "amount")


class ConnectorHooks(Suite):
    """Hooks of :class:`~pz_core.testkit.connector.ConnectorSuite`, to be set or overridden in a test file."""

    connector: ClassVar[type[Any] | None] = None
    """The class that the registration's target names."""

    types: ClassVar[frozenset[str]] = ALL_TYPES
    """Words of ``columns:`` that the place can hold. Values of another type must be refused by name, or carried."""

    contract: ClassVar[bool] = False
    """Whether reads are given ``columns:``, because the place itself does not know types (text formats)."""

    returns_as: ClassVar[Mapping[str, str]] = {}
    """DuckDB type that is written -> type that it is read back as, where the place has no such type of its own."""

    quick: ClassVar[bool] = False
    """Whether each strategy is tried in one tier only, by turns; a full run tries each in all."""

    missing_is_null: ClassVar[bool] = False
    """Whether a column of a contract that is not there is NULL, as in records that need not have every key."""

    public_options: ClassVar[frozenset[str]] = frozenset()
    """Options that sound like a secret and hold none."""

    def options(self) -> Mapping[str, Value]:
        """Hook: connection options of a place that can be reached. Secrets are plain texts here.

        Relative paths start from :attr:`project`. Called once a rule, so that each rule may have a place of its own.
        """
        raise NotImplementedError("override options(): the connection options of a place to test with")

    def unreachable(self) -> Mapping[str, Value] | None:
        """Hook: options of a place that does not answer now but may later (a closed port), if there is one."""
        return None

    def broken(self) -> Mapping[str, Value] | None:
        """Hook: options that will never work (a wrong password, a folder that is a file), if there are any."""
        return None

    def read_options(self, entity: str) -> Mapping[str, Value]:
        """Hook: read options for an entity that the suite has put there or written."""
        return {}

    def write_options(self, entity: str) -> Mapping[str, Value]:
        """Hook: write options for an entity."""
        return {}

    def put(self, entity: str, table: pa.Table) -> None:
        """Hook: make an entity with these rows. By default the connector under test writes them.

        A connector that only reads must say how; one that writes too is tested better with another way in. It may be
        called before :meth:`options`, so what both need is made in :meth:`begin`.
        """
        if not (self.capabilities().load_modes and self.write_tiers()):
            raise NotImplementedError("override put(): a connector that cannot write needs rows from elsewhere")
        strategy = "replace" if "replace" in self.strategies() else self.strategies()[0]
        self.write(entity, table, strategy, self.write_tiers()[-1])

    def fetch(self, entity: str) -> pa.Table | None:
        """Hook: rows of an entity, ``None`` if it is not there. By default the connector under test reads them."""
        raise _NoFetch

    def is_absent(self, error: PzError, entity: str) -> bool:
        """Hook: whether the error of a read says that there is no such entity.

        By default it does if the place says of it what it says of an entity that was never made.
        """
        never = entity[:-4] + "zzzz"
        self._contracts()[never] = self._contracts().get(entity, {"id": "varchar"})
        other = caught(self.bench().land, self.read_spec(never), self.read_tiers()[-1])
        return isinstance(other, PzError) and _shape(other, never) == _shape(error, entity)

    # --- from here on: what rules use -----------------------------------------------------------------------------

    @classmethod
    def subject(cls) -> str | None:
        """The connector's name."""
        return None if cls.connector is None else str(getattr(cls.connector, "name", cls.connector.__name__))

    @classmethod
    def capabilities(cls) -> Capabilities:
        """The connector's own record; an empty one where it has none."""
        found = getattr(cls.connector, "capabilities", None)
        return found if isinstance(found, Capabilities) else Capabilities()

    @classmethod
    def read_tiers(cls) -> tuple[Tier, ...]:
        """Tiers that the connector can be read in."""
        abilities = cls.capabilities()
        made: list[Tier] = ["native"] if abilities.native_read else []
        return (*made, "universal") if abilities.universal_read else tuple(made)

    @classmethod
    def write_tiers(cls) -> tuple[Tier, ...]:
        """Tiers that the connector can be written in."""
        abilities = cls.capabilities()
        made: list[Tier] = ["native"] if abilities.native_write else []
        return (*made, "universal") if abilities.universal_write else tuple(made)

    @classmethod
    def strategies(cls) -> tuple[str, ...]:
        """Strategies of the core that the connector can be loaded by."""
        return tuple(name for name in STRATEGIES if cls.load_mode(name) is not None)

    @classmethod
    def load_mode(cls, strategy: str) -> LoadMode | None:
        """The way in which a strategy loads the connector, as the planner chooses it."""
        modes = cls.capabilities().load_modes
        return next((m for m in strategy_of(strategy).traits.load_modes if m in modes), None)

    @classmethod
    def ways(cls) -> tuple[str, ...]:
        """Strategy and tier of every way to load, as names of rule variants."""
        tiers, strategies = cls.write_tiers(), cls.strategies()
        if cls.quick and tiers:
            return tuple(f"{strategy} {tiers[n % len(tiers)]}" for n, strategy in enumerate(strategies))
        return tuple(f"{strategy} {tier}" for strategy in strategies for tier in tiers)

    def not_applicable(self, each: Rule) -> str | None:
        """Rules need abilities that the record declares; ``a|b`` is satisfied by either."""
        abilities = self.capabilities()
        for need in each.needs:
            if not any(getattr(abilities, one) for one in need.split("|")):
                return f"not declared: {need.replace('|', ' or ')}"
        return None

    @property
    def project(self) -> Any:
        """The folder that relative paths start from."""
        made = self.folder / "project"
        made.mkdir(exist_ok=True)
        return made

    def place(self) -> Mapping[str, Value]:
        """The options of this rule's place, asked for once."""
        if "_place" not in vars(self):
            self._place = dict(self.options())
        return self._place

    def config(self, options: Mapping[str, Value] | None = None) -> ConnectionConfig:
        """A connection as pz hands it over: secrets wrapped."""
        given = dict(self.place() if options is None else options)
        declared = cast(Any, self.connector).connection_options
        made: dict[str, Value | Secret] = {}
        for name, value in given.items():
            option = declared.get(name)
            made[name] = Secret(str(value)) if option is not None and option.secret else value
        return ConnectionConfig("kit", self.subject() or "", made, str(self.project))

    def make(self, options: Mapping[str, Value] | None = None) -> Connector:
        """An instance of the connector."""
        return cast(Connector, cast(Any, self.connector)(self.config(options)))

    def bench(self, connector: Connector | None = None) -> Bench:
        """The engine with the connector."""
        return Bench(connector or self.make(), self.folder / f"bench-{uuid.uuid4().hex[:8]}")

    def entity(self, name: str = "t") -> str:
        """A name that no other rule uses, in no other run either."""
        return f"{name}_{uuid.uuid4().hex[:10]}"

    @contextlib.contextmanager
    def source(self, connector: Connector | None = None) -> Iterator[Source]:
        """An open source; closed at the end."""
        opened = (connector or self.make()).open_source()
        try:
            yield opened
        finally:
            opened.close()

    @contextlib.contextmanager
    def sink(self, connector: Connector | None = None) -> Iterator[Sink]:
        """An open sink; closed at the end."""
        opened = (connector or self.make()).open_sink()
        try:
            yield opened
        finally:
            opened.close()

    def read_spec(self, entity: str, **more: Any) -> ReadSpec:
        """A read of an entity, with its contract where the suite works with one."""
        columns = self._contracts().get(entity) if self.contract else None
        return ReadSpec(entity, self.read_options(entity), **{"columns": columns, **more})

    def write_spec(self, entity: str, strategy: str, **more: Any) -> WriteSpec:
        """A write of an entity as the planner would ask for it; each has a run id of its own."""
        self._runs = vars(self).get("_runs", 0) + 1
        keys = ("id",) if strategy_of(strategy).traits.takes_keys else ()
        made: dict[str, Any] = {
            "strategy": strategy,
            "load_mode": self.load_mode(strategy) or "add",
            "keys": keys,
            "run_id": f"20260101T000000000Z-{self._runs:04x}",
            "node_id": "kit",
        }
        return WriteSpec(entity, self.write_options(entity), **{**made, **more})

    def write(self, entity: str, rows: pa.Table | str, strategy: str, tier: Tier, **more: Any) -> Any:
        """Load rows as a run does: the connector's own offline checks first.

        Raises:
            PzErrors: what the offline checks refuse.
        """
        batch_bytes, ledger = more.pop("batch_bytes", 33_554_432), more.pop("ledger", None)
        connector = more.pop("through", None) or self.make()
        spec = self.write_spec(entity, strategy, **more)
        faults = tuple(connector.validate_write(spec))
        if faults:
            raise PzErrors(faults)
        self._remember(entity, rows)
        control = KitControl(spec.attempt)
        return self.bench(connector).drain(rows, spec, tier, batch_bytes=batch_bytes, control=control, ledger=ledger)

    def found(self, entity: str, tier: Tier | None = None) -> Rows | None:
        """Rows of an entity, ``None`` if it is not there."""
        if tier is None:
            try:
                table = self.fetch(entity)
            except _NoFetch:
                pass
            else:
                return None if table is None else rows_of(table)
        tiers = self.read_tiers()
        if not tiers:
            raise NotImplementedError("override fetch(): a connector that cannot read needs another way to look")
        try:
            return self.bench().land(self.read_spec(entity), tier or tiers[-1]).rows
        except PzError as error:
            if self.is_absent(error, entity):
                return None
            raise

    def sent(self, table: pa.Table) -> Sent:
        """Rows to compare what arrived with."""
        return Sent(table, self.returns_as)

    def dataset(self) -> pa.Table:
        """The rows that reads are tested with, as far as the place can hold their types."""
        return arrow_table(self.dataset_query())

    def dataset_query(self) -> str:
        """The same as a SELECT."""
        kept = {name: made for name, made in _DATASET.items() if self.holds(made[0])}
        rows = len(_DATASET["id"][1])
        lines = (
            ", ".join(
                f"CAST({values[n]} AS {duckdb_type(word)}) AS {quote_identifier(name)}"
                for name, (word, values) in kept.items()
            )
            for n in range(rows)
        )
        return " UNION ALL ".join(f"SELECT {line}" for line in lines)

    @classmethod
    def cursors(cls) -> tuple[str, ...]:
        """Columns of the dataset that a read can be bounded on."""
        return tuple(name for name in CURSORS if cls.holds(_DATASET[name][0]))

    @classmethod
    def holds(cls, word: str) -> bool:
        """Whether the place can hold a type."""
        return word in cls.types or word.partition("(")[0] in cls.types

    @classmethod
    def id_type(cls) -> str:
        """DuckDB type of the ``id`` in :meth:`pairs`."""
        return next((duckdb_type(word) for word in ("bigint", "int", "varchar") if cls.holds(word)), "VARCHAR")

    def pairs_query(self, *rows: tuple[int, str | None]) -> str:
        """A SELECT of rows ``(id, label)``."""
        lines = [f"SELECT CAST({n} AS {self.id_type()}) AS id, CAST({_quoted(t)} AS VARCHAR) AS label" for n, t in rows]
        return " UNION ALL ".join(lines) or (
            f"SELECT CAST(NULL AS {self.id_type()}) AS id, CAST(NULL AS VARCHAR) AS label WHERE false"
        )

    def pairs(self, *rows: tuple[int, str | None]) -> pa.Table:
        """Rows ``(id, label)`` as an Arrow table."""
        return arrow_table(self.pairs_query(*rows))

    def many(self, rows: int) -> str:
        """A SELECT of many rows ``(id, label)``."""
        return (
            f"SELECT CAST(i AS {self.id_type()}) AS id, CASE WHEN i % 7 = 0 THEN NULL ELSE 'r' || i END AS label "
            f"FROM range({rows}) t(i)"
        )

    def failing(self, rows: int = 50_000) -> str:
        """A SELECT whose last row cannot be made, so that a write of it fails half way."""
        return (
            f"SELECT CAST(i AS {self.id_type()}) AS id, CASE WHEN i < {rows - 1} THEN 'r' || i "
            f"ELSE error('the kit lets this row fail') END AS label FROM range({rows}) t(i)"
        )

    def _contracts(self) -> dict[str, dict[str, str]]:
        made: dict[str, dict[str, str]] = vars(self).setdefault("_kept_contracts", {})
        return made

    def remember(self, entity: str, table: pa.Table | str) -> None:
        """Keep the contract of what was put there, for the reads that follow."""
        self._remember(entity, table)

    def _remember(self, entity: str, rows: pa.Table | str) -> None:
        if not self.contract:
            return
        with memory_database() as database:
            if isinstance(rows, str):
                columns = described(database, f"({rows})")
            else:
                database.register("sent", rows)
                columns = described(database, "sent")
        self._contracts()[entity] = {c.name: word_of(c.type) or "" for c in columns}

    def given(self, entity: str, table: pa.Table) -> None:
        """Put rows there through the hook."""
        self.remember(entity, table)
        self.put(entity, table)


class _NoFetch(Exception):
    """The hook :meth:`ConnectorHooks.fetch` is not overridden."""


def _shape(error: PzError, entity: str) -> tuple[str, str]:
    return error.code, re.sub(r"Did you mean.*", "", error.message.replace(entity, "…"))


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else quote_literal(text)

"""The suite for connectors finds each rule that a connector breaks: every variant here breaks one, and is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import msgspec.structs
import pyarrow as pa
import pytest
from pz_example.connector import Example
from pz_example.reading import StreamSource
from pz_example.writing import StreamSession, StreamSink

from pz_core.contract import CheckReport, ConnectionConfig, ConnectorError, Option, Partition, option_set
from pz_core.testkit import ConnectorSuite, run_suite


class Suite(ConnectorSuite):
    def options(self) -> Any:
        return {"folder": "streams"}


def reading(**methods: Any) -> type[Any]:
    source = type("Source", (StreamSource,), methods)
    return type("Broken", (Example,), {"open_source": lambda self: source(self._folder)})


def writing(**methods: Any) -> type[Any]:
    session = type("Session", (StreamSession,), methods)
    sink = type("Sink", (StreamSink,), {"begin": lambda self, spec, columns: session(self._folder, spec, columns)})
    return type("Broken", (Example,), {"open_sink": lambda self: sink(self._folder)})


def able(**abilities: Any) -> type[Any]:
    return type("Broken", (Example,), {"capabilities": msgspec.structs.replace(Example.capabilities, **abilities)})


def empty_for_null(self: Any, spec: Any, partition: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in StreamSource.read(self, spec, partition, batch_rows):
        columns = [c.fill_null("") if pa.types.is_string(c.type) else c for c in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def doubles_for_decimals(self: Any, batch: pa.RecordBatch) -> None:
    columns = [
        c.cast(pa.float64()).cast(c.type, safe=False) if pa.types.is_decimal(c.type) else c for c in batch.columns
    ]
    StreamSession.write(self, pa.RecordBatch.from_arrays(columns, schema=batch.schema))


def nothing_if_empty(self: Any, spec: Any, partition: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    yield from (b for b in StreamSource.read(self, spec, partition, batch_rows) if b.num_rows)


def whole(self: Any, spec: Any, partition: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    yield from StreamSource.read(self, spec, partition, 1_000_000)


def straight(self: Any, folder: Any, spec: Any, columns: Any) -> None:
    StreamSession.__init__(self, folder, spec, columns)
    self._temporary.unlink()
    self._temporary = self._final
    self._file = pa.OSFile(str(self._final), "wb")


def keep(self: Any, batch: pa.RecordBatch) -> None:
    vars(self).setdefault("kept", []).append(batch)


def write_kept(self: Any) -> Any:
    for batch in vars(self).get("kept", ()):
        StreamSession.write(self, batch)
    return StreamSession.commit(self)


def reopen(self: Any, batch: pa.RecordBatch) -> None:
    if self._file is not None:
        StreamSession.write(self, batch)


def lose_a_row(self: Any, batch: pa.RecordBatch) -> None:
    StreamSession.write(self, batch.slice(0, batch.num_rows - 1))
    self._rows += 1


def missing_raw(self: Any, spec: Any, **more: Any) -> Iterator[Any]:
    yield from open(self._folder.file(spec.entity), "rb")  # noqa: SIM115, PTH123


def dial(self: Any, spec: Any) -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=0.1)


def cut_names(kind: type[Any]) -> type[Any]:
    def file(self: Any, entity: str) -> Any:
        return Folder.file(self, entity[:12])

    from pz_example.folder import Folder

    short = type("Short", (Folder,), {"file": file})

    def begin(self: Any, connection: ConnectionConfig) -> None:
        Example.__init__(self, connection)
        self._folder = short(self._folder.connection, self._folder.path)

    return type("Broken", (kind,), {"__init__": begin})


class Talkative(Example):
    connection_options = option_set(
        *Example.connection_options.options, Option("password", "string", "of the folder", secret=True)
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        from pz_core.contract import reveal

        super().__init__(connection)
        self._password = reveal(connection.options.get("password", ""))  # type: ignore[arg-type]

    def check(self) -> CheckReport:
        return CheckReport(True, f"reached with {self._password[:15]}")


class Unwary(Example):
    connection_options = option_set(
        *Example.connection_options.options, Option("api_token", "string", "for the folder")
    )


class Raising(Example):
    def __init__(self, connection: ConnectionConfig) -> None:
        super().__init__(connection)
        int(str(connection.options["folder"]).encode("ascii").decode() and "1")


class Hopeful(Example):
    """Calls what will never work something that passes."""

    def open_source(self) -> Any:
        def batches(source: Any, spec: Any, **more: Any) -> Iterator[Any]:
            try:
                yield from StreamSource._batches(source, spec, **more)
            except ConnectorError as error:
                error.transient = True
                raise

        return type("Source", (StreamSource,), {"_batches": batches})(self._folder)


BROKEN: dict[str, tuple[type[Any], str]] = {
    "reads NULL as the empty text": (reading(read=empty_for_null), "read_returns_every_value[universal]"),
    "yields no batch for no rows": (reading(read=nothing_if_empty), "no_rows_give_one_batch"),
    "ignores the size of batches": (reading(read=whole), "batches_are_no_larger_than_asked"),
    "names other columns": (reading(schema=lambda self, spec: ()), "schema_is_what_lands"),
    "reads one part twice": (
        reading(partitions=lambda self, spec: (Partition(0), Partition(1))),
        "partitions_cover_exactly",
    ),
    "lets an OSError out": (reading(_batches=missing_raw), "a_missing_entity_is_refused_by_name"),
    "calls a missing entity transient": (Hopeful, "a_missing_entity_is_refused_by_name"),
    "plans with the network": (reading(native_scan=dial), "making_and_planning_touch_nothing"),
    "takes a contract for a hint": (
        reading(_named=lambda self, spec, there: list(there), _refuse_other_types=lambda *_: None),
        "a_contract_is_kept[universal]",
    ),
    "promises bounds": (able(floor_pushdown=True), "bounds_are_exact[id]"),
    "promises pruning": (able(column_pruning=True), "pruned_columns_change_no_value"),
    "promises stable partitions": (able(partitioned_read=True, stable_partitions=True), "partitions_cover_exactly"),
    "writes straight into the target": (
        writing(__init__=straight), "a_failed_write_leaves_the_old_content[replace universal]",
    ),
    "shows rows before the commit": (
        writing(__init__=straight), "nothing_is_seen_before_the_commit[replace universal]",
    ),
    "keeps batches that are not its own": (
        writing(write=keep, commit=write_kept),
        "batches_are_read_while_they_are_there[gone after the call]",
    ),
    "takes rows after the end": (writing(write=reopen), "an_ended_session_takes_nothing[commit]"),
    "leaves the old content after an abort": (
        writing(abort=StreamSession.commit),
        "abort_leaves_the_target_as_it_was[after rows]",
    ),
    "loses a row and does not say so": (writing(write=lose_a_row), "a_write_lands_every_row[replace universal]"),
    "rounds decimals": (writing(write=doubles_for_decimals), "values_arrive_exactly_or_are_refused[plain]"),
    "cuts names": (cut_names(Example), "names_that_look_alike_are_kept_apart[last of many letters]"),
    "shows half a secret": (Talkative, "secrets_are_never_shown"),
    "has a secret that is none": (Unwary, "secrets_are_declared"),
    "raises for odd options": (Raising, "odd_options_are_answered_in_codes"),
    "declares a key of pz's own": (
        type("Broken", (Example,), {"connection_options": option_set(Option("retry", "string", "own"))}),
        "options_are_documented",
    ),
    "contradicts itself": (able(load_modes=frozenset()), "the_abilities_fit_together"),
    "lacks a method": (type("Broken", (Example,), {"check": None}), "the_class_is_a_connector"),
    "says that all is well": (
        type("Broken", (Example,), {"check": lambda self: CheckReport(True, "fine")}),
        "a_bad_place_is_told[broken]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_connector_that(what: str) -> None:
    kind, rule = BROKEN[what]
    broken = {"broken": lambda self: {"folder": str(self.project / "f")}} if rule.startswith("a_bad") else {}
    suite = type("Kit", (Suite,), {"connector": kind, **broken})
    report = run_suite(suite, only={rule})
    assert [(r.rule, r.outcome) for r in report.results] == [(rule, "failed")], report.results
    assert report.failures[0].reason
    assert not report.ok


def test_rules_of_what_is_not_declared_are_skipped_with_a_reason() -> None:
    suite = type("Kit", (Suite,), {"connector": Example})
    report = run_suite(suite, only={"both_tiers_land_the_same", "schema_policies_hold", "a_batch_is_written_once"})
    assert {r.outcome for r in report.results} == {"skipped"}
    assert all(r.reason for r in report.results)

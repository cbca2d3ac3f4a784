"""Variants of the honest connector, each with one fault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pz_core.contract import CheckReport, Option, Receipt, option_set, reveal
from pz_hostile import honest


class Honest(honest.Connector):
    """Keeps every rule."""


def variant(name: str, *, session: Any = None, source: Any = None, sink: Any = None, **members: Any) -> Any:
    """A connector that differs in one part."""
    if session is not None:
        sink = type("Sink", (honest.Sink,), {"session": session})
    parts = {"source": source or honest.Source, "sink": sink or honest.Sink}
    own = {"name": f"hostile_{name}", "testkit": f"pz_hostile.kit:{_class(name)}Suite"}
    return type(_class(name), (honest.Connector,), {**own, **parts, **members})


def _class(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


# --- values ----------------------------------------------------------------------------------------------------------


class _DropsNulls(honest.Source):
    def changed(self, batch: Any, spec: Any) -> Any:
        if "label" not in batch.schema.names:
            return batch
        return batch.filter(batch["label"].is_valid())


class _ChangesType(honest.Source):
    def changed(self, batch: Any, spec: Any) -> Any:
        import pyarrow as pa

        fields = [pa.field(f.name, pa.int64() if f.type == pa.int32() else f.type) for f in batch.schema]
        return batch.cast(pa.schema(fields))


class _RoundsDecimals(honest.Session):
    def changed(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        made = [pc.round(c, 1).cast(c.type) if pa.types.is_decimal(c.type) else c for c in batch.columns]
        return pa.RecordBatch.from_arrays(made, schema=batch.schema)


class _EmptiesToNull(honest.Session):
    def changed(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        def without(column: Any) -> Any:
            return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)

        made = [without(c) if pa.types.is_string(c.type) else c for c in batch.columns]
        return pa.RecordBatch.from_arrays(made, schema=batch.schema)


class _MindsTheMachine(honest.Session):
    def changed(self, batch: Any) -> Any:
        import time

        import pyarrow as pa

        def shifted(column: Any) -> Any:
            if not (pa.types.is_timestamp(column.type) and column.type.unit == "us"):
                return column
            moved = [None if v is None else v - time.timezone * 1_000_000 for v in column.cast(pa.int64()).to_pylist()]
            return pa.array(moved, pa.int64()).cast(column.type)

        return pa.RecordBatch.from_arrays([shifted(c) for c in batch.columns], schema=batch.schema)


DropsNulls = variant("drops_nulls", source=_DropsNulls)
ChangesType = variant("changes_type", source=_ChangesType)
RoundsDecimals = variant("rounds_decimals", session=_RoundsDecimals)
EmptiesToNull = variant("empties_to_null", session=_EmptiesToNull)
MindsTheMachine = variant("minds_the_machine", session=_MindsTheMachine)


# --- reading ---------------------------------------------------------------------------------------------------------


class _BatchesTooLarge(honest.Source):
    def read(self, spec: Any, partition: Any, batch_rows: int) -> Any:
        return super().read(spec, partition, 1_000_000)


class _LosesEmptySchema(honest.Source):
    def read(self, spec: Any, partition: Any, batch_rows: int) -> Any:
        return (batch for batch in super().read(spec, partition, batch_rows) if batch.num_rows)


class _LosesBounds(honest.Source):
    """Takes every floor for an exclusive one."""

    def changed(self, batch: Any, spec: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if spec.bounds is None or spec.bounds.lower is None or not pa.types.is_integer(batch[spec.bounds.cursor].type):
            return batch
        return batch.filter(pc.greater(batch[spec.bounds.cursor], int(spec.bounds.lower)))


class _ForeignErrors(honest.Source):
    def open(self, spec: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.open_stream(self.connector.file(spec.entity).read_bytes())


class _Dies(honest.Source):
    def read(self, spec: Any, partition: Any, batch_rows: int) -> Any:
        os._exit(7)


BatchesTooLarge = variant("batches_too_large", source=_BatchesTooLarge)
LosesEmptySchema = variant("loses_empty_schema", source=_LosesEmptySchema)
LosesBounds = variant(
    "loses_bounds",
    source=_LosesBounds,
    capabilities=replace(honest.Connector.capabilities, floor_pushdown=True, inclusive_bound=True),
)
ForeignErrors = variant("foreign_errors", source=_ForeignErrors)
Dies = variant("dies", source=_Dies)


# --- writing ---------------------------------------------------------------------------------------------------------


class _PartialWrite(honest.Session):
    """Writes into the target at once; what a failed write has written stays."""

    def place_aside(self) -> Path:
        return self.file

    def abort(self) -> None:
        self.ended = True
        if self.writer is not None:
            self.writer.close()


class _IgnoresAbort(honest.Session):
    def abort(self) -> None:
        if not self.ended:
            self.commit()


class _HidesOldContent(honest.Session):
    """Removes what is there before the new content is."""

    def begin(self, schema: Any) -> None:
        super().begin(schema)
        self.file.unlink(missing_ok=True)


class _ShowsEarly(honest.Session):
    """Every batch is in the target as soon as it is written."""

    def write(self, batch: Any) -> None:
        super().write(batch)
        with self.beside.open("rb") as made:
            self.file.write_bytes(made.read())


class _KeepsBatches(honest.Session):
    """Writes batches when they may be gone already."""

    def write(self, batch: Any) -> None:
        self.refuse_ended()
        self.__dict__.setdefault("held", []).append(batch)

    def commit(self) -> Receipt:
        for batch in self.__dict__.pop("held", []):
            super().write(batch)
        return super().commit()


class _AcceptsAfterEnd(honest.Session):
    def refuse_ended(self) -> None:
        pass

    def write(self, batch: Any) -> None:
        if not self.ended:
            super().write(batch)


class _CountsWrongly(honest.Session):
    def commit(self) -> Receipt:
        made = super().commit()
        return Receipt(max(made.rows - 1, 0), made.batches)


class _ReplaceAdds(honest.Sink):
    def keeps(self, spec: Any) -> bool:
        return True


PartialWrite = variant("partial_write", session=_PartialWrite)
IgnoresAbort = variant("ignores_abort", session=_IgnoresAbort)
HidesOldContent = variant("hides_old_content", session=_HidesOldContent)
ShowsEarly = variant("shows_early", session=_ShowsEarly)
KeepsBatches = variant("keeps_batches", session=_KeepsBatches)
AcceptsAfterEnd = variant("accepts_after_end", session=_AcceptsAfterEnd)
CountsWrongly = variant("counts_wrongly", session=_CountsWrongly)
ReplaceAdds = variant("replace_adds", sink=_ReplaceAdds)


# --- options, names, secrets -----------------------------------------------------------------------------------------


def _prints_secrets(self: Any) -> str:
    secret = self.connection.options.get("password", "")
    return f"Connector({self.folder}, {reveal(secret)})"


def _cut(self: Any, entity: str) -> Path:
    short: Path = self.folder / ("".join(c if c.isalnum() else "_" for c in entity)[:12] + ".arrows")
    return short


def _touches(self: Any, connection: Any) -> None:
    honest.Connector.__init__(self, connection)
    self.folder.mkdir(parents=True, exist_ok=True)


PrintsSecrets = variant("prints_secrets", __repr__=_prints_secrets)
CutsNames = variant("cuts_names", file=_cut)
TouchesThePlace = variant("touches_the_place", __init__=_touches)
AlwaysWell = variant("always_well", check=lambda self: CheckReport(True, "all is well"))
UndeclaredSecret = variant(
    "undeclared_secret",
    connection_options=option_set(
        Option("folder", "string", "where the files are", required=True), Option("password", "string", "who knows")
    ),
)
NoSuite = variant("no_suite", testkit="pz_hostile.absent:Suite")

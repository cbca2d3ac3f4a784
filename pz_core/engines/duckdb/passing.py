"""Rows pass straight from a scan into their target; DuckDB plans scan, view and load as one.

The scan and the view stand in a database of their own in memory, for this one task: the run's file never knows of them,
so whatever goes wrong there is nothing to clean up, and no text of a scan is written to a file.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import duckdb
import msgspec.structs

from pz_core.contract.connector import resolved_scan
from pz_core.contract.engine import (
    Cancelled,
    DrainTask,
    Host,
    LandResult,
    LandTask,
    MaterialiseTask,
    Moved,
    NotMoved,
)
from pz_core.engines.duckdb.choices import choices
from pz_core.engines.duckdb.drain import drain
from pz_core.engines.duckdb.hints import with_fitting_hints
from pz_core.engines.duckdb.landing import stoppable, subject_of
from pz_core.engines.duckdb.materialise import materialise
from pz_core.engines.duckdb.session import CATALOG, SCHEMA, Session, Work
from pz_core.values import quote_identifier, quote_path

_number = itertools.count(1)


def move(
    session: Session,
    host: Host,
    batch_bytes: int,
    land: LandTask,
    make: MaterialiseTask,
    load: DrainTask,
    work: Work,
) -> Moved:
    """Read, reshape and load in one pass.

    Raises:
        NotMoved: for whatever goes wrong: the tasks one by one tell it better, or get over it.
        Cancelled: if told to stop before the commit.
    """
    try:
        with contextlib.ExitStack() as ends:
            source = host.connector(land.connection).open_source()
            # All rows are counted by the time that it is closed, and the target has them: too late for a fault.
            ends.callback(_quietly, source.close)
            stoppable(source, work)
            subject, planned = subject_of(land), land.read.hints
            land = with_fitting_hints(session, source, land, work, subject)
            scan = resolved_scan(source, land.read)
            if scan is None or scan.rejects is not None:
                raise NotMoved(None, tried=False)  # what it rejects is known too late
            session.set_up(work, scan.setup, subject, land.node.name)
            catalog = ends.enter_context(_own_catalog(work))
            read = quote_path(catalog, SCHEMA, land.relation)
            work.run(f"CREATE VIEW {read} AS\n{scan.query}")
            columns = work.columns(read)
            if make.asks is not None and not {c.name.lower() for c in columns} <= make.asks:
                # What nobody asks for, DuckDB does not look at; landed, it would be looked at.
                raise NotMoved(None, tried=False)
            view = quote_path(catalog, SCHEMA, make.relation)
            made = materialise(msgspec.structs.replace(make, as_view=True), work, view)
            work.rearm()
            drained = drain(session, host, batch_bytes, load, work, view)
            if drained.delivered_by is not None:
                raise NotMoved(None, tried=False)
    except (Cancelled, NotMoved):
        raise
    except Exception as error:
        if not work.committing:
            work.recognise(error)
        raise NotMoved(error, tried=work.committing) from error
    access = {} if scan.choice is None else {"access": scan.choice}
    landed = LandResult(drained.rows_staged, 0, columns, 0, "native", choices=access)
    return Moved(msgspec.structs.replace(landed, choices=choices(planned, land, landed)), made, drained)


@contextlib.contextmanager
def _own_catalog(work: Work) -> Iterator[str]:
    """A database in memory, in which ``staging`` means its own schema to this task."""
    name = f"pz_pass_{next(_number)}"
    work.run(f"ATTACH ':memory:' AS {quote_identifier(name)}")
    try:
        work.run(f"CREATE SCHEMA {quote_path(name, SCHEMA)}")
        work.run(f"USE {quote_identifier(name)}")
        yield name
    finally:
        work.shield()
        for sql in (f"USE {quote_identifier(CATALOG)}", f"DETACH {quote_identifier(name)}"):
            with contextlib.suppress(duckdb.Error):
                work.cursor.execute(sql)


def _quietly(close: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        close()

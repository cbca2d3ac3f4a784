"""The session: one in-memory DuckDB with the run's file attached, and a cursor of its own for every task.

Sources: COMPONENTS 1 and its last section (what DuckDB 1.5.5 does when cursors work at once, when it is interrupted,
and what a checkpoint costs), DESIGN "A row's journey".
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.engine import Cancelled, Control, EngineSettings
from pz_core.contract.extensions import UNSIGNED, load_checked, load_known
from pz_core.engines.duckdb.errors import is_transient, next_step
from pz_core.errors import PzError, Where
from pz_core.values import Column, quote_identifier, quote_literal, quote_path
from pz_core.values.duckdb_text import clean_message
from pz_core.values.durable import flushing

#: Name under which the run's file is attached. With a name of its own, ``staging.x`` can only mean the schema.
CATALOG = "pz_run"
SCHEMA = "staging"

#: How often an interrupt is repeated until the task lets go: one that arrives between two statements is lost.
_REPEAT_SECONDS = 0.02

#: A connection string, an address with a user, or an option that is a secret: DuckDB may quote it back.
_MAY_HOLD_CREDENTIAL = re.compile(r"=|@|://|password|secret|token|key", re.IGNORECASE)
#: How long the end of a session waits for an extension that is just being loaded.
_AHEAD_SECONDS = 2.0
_PLAIN_SET = re.compile(r"\s*set\s+(?!global\b|session\b|local\b|variable\b)", re.IGNORECASE)


def staged(relation: str) -> str:
    """The full quoted name of a relation in the schema ``staging``."""
    return quote_path(CATALOG, SCHEMA, relation)


class Interrupter:
    """Stops what runs on one cursor, and nothing else: after :meth:`stop` it does nothing."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.fired = False

    def fire(self) -> None:
        """Interrupt now, and again until the task lets go; returns at once."""
        if not self._once():
            return
        self.fired = True
        threading.Thread(target=self._repeat, name="pz-interrupt", daemon=True).start()

    def stop(self) -> None:
        """No interrupt after this."""
        with self._lock:
            self._stopped.set()

    def _once(self) -> bool:
        with self._lock:
            if self._stopped.is_set():
                return False
            with contextlib.suppress(duckdb.Error):  # closed by now, if its task was given up
                self._cursor.interrupt()
            return True

    def _repeat(self) -> None:
        while not self._stopped.wait(_REPEAT_SECONDS):
            if not self._once():
                return


class Work:
    """A task's cursor and its control: statements notice cancelling, clean-up is shielded from it."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, control: Control) -> None:
        self.cursor = cursor
        self.control = control
        self._interrupter = Interrupter(cursor)
        self._others: list[Callable[[], None]] = []
        self._take_back = control.on_cancel(self._cancel)
        self.committing = False

    def _cancel(self) -> None:
        self._interrupter.fire()
        for other in tuple(self._others):
            other()

    def also_on_cancel(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` too when the task is cancelled."""
        self._others.append(stop)

    def run(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Run a statement.

        Raises:
            Cancelled: if the task was told to stop, before or while it ran.
            duckdb.Error: whatever else DuckDB says.
        """
        self.control.raise_if_cancelled()
        try:
            return self.cursor.execute(sql)
        except duckdb.Error as error:
            self.recognise(error)
            raise

    def recognise(self, error: BaseException) -> None:
        """Raise :class:`Cancelled` if ``error`` is what an interrupt of ours looks like."""
        if self._interrupter.fired and "INTERRUPT" in str(error):
            raise Cancelled from error
        self.control.raise_if_cancelled()

    def count(self, sql: str) -> int:
        """Run a statement whose first column of one row is a number."""
        row = self.run(sql).fetchone()
        return int(row[0]) if row and row[0] is not None else 0

    def shield(self) -> None:
        """From here on the task cannot be interrupted: it cleans up, or its commit has begun."""
        self._interrupter.stop()

    def commits(self) -> None:
        """From here on the target may have the rows, whatever comes."""
        self.shield()
        self.committing = True

    def rearm(self) -> None:
        """After a statement that failed, and whose failure is not the end: the next one can be interrupted again."""
        self._interrupter = Interrupter(self.cursor)
        self.control.raise_if_cancelled()

    def columns(self, relation: str) -> tuple[Column, ...]:
        """Columns of a relation (a quoted name) as DuckDB describes them."""
        return tuple(Column(r[0], r[1]) for r in self.run(f"DESCRIBE {relation}").fetchall())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: committed at the end of the block, rolled back on any error."""
        self.run("BEGIN TRANSACTION")
        try:
            yield
            self.control.raise_if_cancelled()
            self.shield()
            self.cursor.execute("COMMIT")
        except BaseException:
            self.shield()
            with contextlib.suppress(duckdb.Error):
                self.cursor.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Give the cursor back."""
        self._take_back()
        self.shield()
        self.cursor.close()


class _Unattended:
    """The control of work that no node waits for."""

    attempt = 1

    def progress(self, rows: int, bytes: int, batches: int) -> None:
        """Nobody looks."""

    def raise_if_cancelled(self) -> None:
        """It is short, and ends with the session."""

    def on_cancel(self, interrupt: Callable[[], None]) -> Callable[[], None]:
        """Nothing to register."""
        return lambda: None


class _Once:
    """One setup statement: who runs it, and whether it is done."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done = False
        self.each_cursor = False


class Session:
    """The DuckDB of a run.

    Args:
        settings: of the engine.

    Raises:
        PzError: PZ0501 if a setting is refused or the file cannot be opened.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "arrow_lossless_conversion": "true",
            "preserve_insertion_order": "true",
            "temp_directory": settings.temp_directory,
        }
        if settings.ahead:
            config |= UNSIGNED
        if settings.memory_limit is not None:
            config["memory_limit"] = settings.memory_limit
        if settings.threads is not None:
            config["threads"] = settings.threads
        try:
            self._main = duckdb.connect(":memory:", config=config)
        except duckdb.Error as error:
            raise PzError(
                "PZ0501",
                f"DuckDB refuses the settings under engine.duckdb: {error}",
                hint="correct memory_limit, threads or temp_directory in project.yml",
                cause=error,
            ) from error
        self._setups: dict[str, _Once] = {}
        if settings.ahead:
            for setup in load_known(self._main, settings.ahead):
                self._setups[setup.sql] = once = _Once()
                once.done = True
        try:
            self._prepare(settings.staging_path)
        except duckdb.Error as error:
            self._main.close()
            raise PzError(
                "PZ0501",
                f"the staging file {settings.staging_path} cannot be opened: {error}",
                hint="check that its folder exists and can be written, and that no other process holds the file",
                cause=error,
            ) from error
        self._lock = threading.Lock()
        self._open: set[duckdb.DuckDBPyConnection] = set()
        self._closed = False
        self._catalogs: dict[str, threading.Lock] = {}
        self._alone: int | None = None
        self._ends = contextlib.ExitStack()
        # A commit waits until the disk has all of it, so most of it should be there by then.
        self._ends.enter_context(flushing(Path(settings.staging_path)))
        self._ahead: threading.Thread | None = None
        if any(setup.sql not in self._setups for setup in settings.ahead):
            self._ahead = threading.Thread(target=self._load_ahead, name="pz-load-ahead", daemon=True)
            self._ahead.start()

    def _prepare(self, path: str) -> None:
        run = self._main.execute
        run("SET GLOBAL TimeZone = 'UTC'")
        # A checkpoint costs more than the whole move; the write-ahead log beside the file is all that readers need.
        run("PRAGMA disable_checkpoint_on_shutdown")
        run("SET GLOBAL checkpoint_threshold = '1000TB'")
        # The oldest format of DuckDB, which is its default, has no place for a VARIANT.
        run(f"ATTACH {quote_literal(path)} AS {quote_identifier(CATALOG)} (STORAGE_VERSION 'v1.5.0')")
        run(f"CREATE SCHEMA IF NOT EXISTS {quote_path(CATALOG, SCHEMA)}")

    @contextlib.contextmanager
    def task(self, control: Control) -> Iterator[Work]:
        """A cursor for one task, from any thread; nothing of another task can be interrupted through it."""
        with self._lock:
            if self._closed:
                raise Cancelled("the engine is closed")
            cursor = self._main.cursor()
            self._open.add(cursor)
            self._all_threads()
        try:
            cursor.execute(f"USE {quote_identifier(CATALOG)}")
            work = Work(cursor, control)
            try:
                yield work
            finally:
                work.close()
        finally:
            with self._lock:
                self._open.discard(cursor)
            cursor.close()

    # --- setup statements ----------------------------------------------------------------------------------------

    def set_up(self, work: Work, setups: Sequence[Setup], subject: str, node: str) -> None:
        """Run setup statements that this run has not run yet; one in flight elsewhere is waited for.

        Args:
            work: of the task that needs them.
            setups: in order.
            subject: ``connection.entity``, for messages.
            node: name of the node.

        Raises:
            ConnectorError: PZ0311 naming the kind of the statement, never its text.
        """
        for setup in setups:
            with self._lock:
                once = self._setups.setdefault(setup.sql, _Once())
            while not once.lock.acquire(timeout=0.1):
                work.control.raise_if_cancelled()
            try:
                self._set_up_once(work, setup, once)
            except duckdb.Error as error:
                work.recognise(error)
                raise _setup_error(error, setup, subject, node) from None
            finally:
                once.lock.release()

    def _load_ahead(self) -> None:
        """Load extensions while nodes make their connections. A fault is told by the node that needs one."""
        with contextlib.suppress(PzError, Cancelled, duckdb.Error), self.task(_Unattended()) as work:
            for setup in self.settings.ahead:
                with contextlib.suppress(PzError):
                    self.set_up(work, (setup,), "", "")

    def _set_up_once(self, work: Work, setup: Setup, once: _Once) -> None:
        if once.each_cursor:
            work.run(setup.sql)
        if once.done:
            return
        match = _PLAIN_SET.match(setup.sql)
        if setup.kind == "extension":
            load_checked(work.run, setup)
        elif match is None:
            work.run(setup.sql)
        else:
            # A plain SET would hold for this cursor only, and other tasks count on it too.
            try:
                work.run(f"SET GLOBAL {setup.sql[match.end() :]}")
            except duckdb.CatalogException:
                work.run(setup.sql)
                once.each_cursor = True
        once.done = True

    @contextlib.contextmanager
    def alone_in(self, catalog: str, work: Work) -> Iterator[None]:
        """Hold a catalog for one load: DuckDB lets concurrent changes of one catalog conflict instead of wait."""
        with self._lock:
            lock = self._catalogs.setdefault(catalog.casefold(), threading.Lock())
        while not lock.acquire(timeout=0.1):
            work.control.raise_if_cancelled()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def in_one_thread(self) -> Iterator[None]:
        """For a statement that DuckDB carries out in one thread, as long as no other task runs.

        Whichever thread is quicker takes such a statement up. Where that is not the one that asked for it, this one
        asks over and over whether it is done, and takes a core from whoever receives the rows.
        """
        with self._lock:
            if len(self._open) == 1 and self._alone is None:
                self._alone = int(str(self._setting("threads")))
                self._main.execute("SET GLOBAL threads = 1")
        try:
            yield
        finally:
            with self._lock:
                self._all_threads()

    def _all_threads(self) -> None:
        """Under the lock: what began alone is not alone any more, or has ended."""
        threads, self._alone = self._alone, None
        if threads is not None and not self._closed:
            with contextlib.suppress(duckdb.Error):  # a database that is broken tells so to who asks it for something
                self._main.execute(f"SET GLOBAL threads = {threads}")

    def _setting(self, name: str) -> object:
        row = self._main.execute(f"SELECT current_setting({quote_literal(name)})").fetchone()
        return row[0] if row else None

    def close(self) -> None:
        """Close every cursor and the database; the staging file is released and its log stays beside it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            cursors = tuple(self._open)
            self._open.clear()
        if self._ahead is not None:
            self._ahead.join(_AHEAD_SECONDS)
        for cursor in cursors:
            with contextlib.suppress(duckdb.Error):
                cursor.interrupt()
                cursor.close()
        self._main.close()
        self._ends.close()


def _setup_error(error: duckdb.Error, setup: Setup, subject: str, node: str) -> ConnectorError:
    """PZ0311. DuckDB's own words stand in it only where the statement has no place for a credential."""
    text = str(error)
    told = "" if setup.kind == "secret" or _MAY_HOLD_CREDENTIAL.search(setup.sql) else f": {clean_message(text)}"
    return ConnectorError(
        f"{subject}: a native setup statement of kind '{setup.kind}' failed with {type(error).__name__}{told}",
        code="PZ0311",
        transient=is_transient(text),
        where=Where(node=node),
        hint=next_step(text)
        or f"check the address, the credentials and the extension of the connection that {subject} belongs to",
    )

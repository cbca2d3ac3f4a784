"""What the server keeps for a captured dataset, a slot and a publication: names, what must hold, how it stands."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pz_core.contract.connector import ConnectorError, ReadSpec
from pz_core.values import quote_identifier, quote_literal
from pz_postgres.control import ask, connect, statement_error
from pz_postgres.names import TableName
from pz_postgres.settings import Settings

if TYPE_CHECKING:
    import psycopg

_OLDEST = 140000
_LONGEST = 63
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_PUBLISHED_SINCE = 150000

_TABLE = """
SELECT c.oid::int8, c.relkind::text, c.relreplident::text, c.relpersistence::text, x.names, x.types
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
   SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.n) AS names,
     pg_catalog.array_agg(a.atttypid::int8 ORDER BY k.n) AS types FROM pg_catalog.pg_index i
   CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, n)
   JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
   WHERE i.indrelid = c.oid AND k.n <= i.indnkeyatts
     AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END) AS x
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""

_SLOT_STATE = """
SELECT plugin::text, slot_type, database::text = pg_catalog.current_database(), temporary, active,
  confirmed_flush_lsn::text, coalesce(wal_status, ''),
  pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::int8, two_phase
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""


class CaptureNames(Struct, frozen=True):
    """What a dataset's things are called on the server.

    Args:
        subject: ``connection.entity``.
        slot, publication: their names.
        table: the table.
        own: whether the publication is made and removed by pz.
    """

    subject: str
    slot: str
    publication: str
    table: TableName
    own: bool

    @classmethod
    def of(cls, settings: Settings, spec: ReadSpec) -> CaptureNames:
        """Those of a read.

        Raises:
            ConnectorError: PZ0353 for a slot that can have no such name, or an entity that is no table's name.
        """
        subject = f"{settings.name}.{spec.entity}"
        assert spec.capture is not None
        table = TableName.of(spec.entity, subject)
        own = _own_name(spec.capture.project, settings.name, f"{table.schema}.{table.table}", spec.entity)
        slot = spec.capture.slot or own
        if not _SLOT.fullmatch(slot):
            raise ConnectorError(
                f"{subject}: '{slot}' is no name of a replication slot",
                code="PZ0353",
                hint="write slot: with at most 63 lower-case letters, digits and underscores, or leave it out",
            )
        given = spec.options.get("publication")
        return cls(subject, slot, own if given is None else str(given), table, given is None)


def _own_name(project: str, connection: str, table: str, entity: str) -> str:
    digest = hashlib.sha256(repr((project, connection, table)).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    plain = re.sub(r"[^a-z0-9]+", "_", f"{project}_{connection}_{entity}".lower()).strip("_")
    return f"pz_{plain[: _LONGEST - 12]}_{digest}"


class SlotState(Struct, frozen=True):
    """A slot as the server has it.

    Args:
        unfit: why it cannot be read from, ``None`` if it can.
        active: whether somebody reads from it now.
        confirmed: place in the log before which it has nothing any more.
        lost: whether the server has removed log that it needed.
        retained: bytes of log that are kept for it.
    """

    unfit: str | None
    active: bool
    confirmed: str | None
    lost: bool
    retained: int | None


def slot_state(held: psycopg.Connection[Any], names: CaptureNames) -> SlotState | None:
    """The slot, ``None`` if there is none."""
    rows = ask(held, _SLOT_STATE, (names.slot,), names.subject)
    if not rows:
        return None
    plugin, kind, here, temporary, active, confirmed, wal, retained, two_phase = rows[0]
    unfit = None
    if kind != "logical" or plugin != "pgoutput":
        unfit = f"slot {names.slot} is not one of pgoutput"
    elif not here:
        unfit = f"slot {names.slot} belongs to another database"
    elif temporary or two_phase:
        unfit = f"slot {names.slot} is temporary or made for two-phase commit"
    return SlotState(unfit, bool(active), confirmed, wal == "lost", None if retained is None else int(retained))


class CapturedTable(Struct, frozen=True):
    """The table as far as capture depends on it: its oid, its key columns, and the oids of their types."""

    oid: int
    keys: tuple[str, ...]
    key_types: dict[str, int]


def captured_table(held: psycopg.Connection[Any], names: CaptureNames) -> CapturedTable:
    """The table and its keys.

    Raises:
        ConnectorError: PZ0338 if its changes cannot be captured, with the statement that would mend it.
    """
    if held.info.server_version < _OLDEST:
        raise refused(names, "the server is older than PostgreSQL 14", "use sync: {mode: incremental, cursor: …}")
    level = str(ask(held, "SELECT pg_catalog.current_setting('wal_level')", (), names.subject)[0][0])
    if level != "logical":
        raise refused(
            names,
            f"the server's wal_level is {level}, and changes can be captured with logical only",
            "ALTER SYSTEM SET wal_level = 'logical', then restart the server",
        )
    if ask(held, "SELECT pg_catalog.pg_is_in_recovery()", (), names.subject)[0][0]:
        raise refused(names, "the server is a standby", "connect to the primary server")
    rows = ask(held, _TABLE, (names.table.schema, names.table.table), names.subject)
    if not rows:
        raise ConnectorError(
            f"{names.subject}: there is no such table",
            hint="check the name (it keeps its case) and the schema, which is public if none is named",
        )
    oid, kind, identity, persistence, keys, types = rows[0]
    quoted = names.table.quoted
    if kind not in ("r", "p") or persistence != "p":
        raise refused(names, "it is no table whose changes are logged", "capture the tables that it is made from")
    if identity == "n":
        hint = f"ALTER TABLE {quoted} REPLICA IDENTITY DEFAULT"
        raise refused(names, "the table logs no keys (REPLICA IDENTITY NOTHING)", hint)
    if not keys:
        raise refused(
            names,
            "the table has no primary key, so that nothing tells which row was changed",
            f"ALTER TABLE {quoted} ADD PRIMARY KEY (…), or ALTER TABLE {quoted} REPLICA IDENTITY USING INDEX …",
        )
    return CapturedTable(int(oid), tuple(keys), dict(zip(keys, map(int, types), strict=True)))


def ensure_publication(held: psycopg.Connection[Any], names: CaptureNames, table: CapturedTable) -> None:
    """Make the publication if it is pz's own and not there, and look whether it publishes all of the table.

    Raises:
        ConnectorError: PZ0338, with the statement to run.
    """
    import psycopg

    create = (
        f"CREATE PUBLICATION {quote_identifier(names.publication)} FOR TABLE {names.table.quoted} "
        "WITH (publish_via_partition_root = true)"
    )
    found = publication_fault(held, names, table)
    if found is None:
        return
    if found != "missing":
        raise refused(
            names,
            f"publication {names.publication} {found}",
            f"DROP PUBLICATION {quote_identifier(names.publication)}; {create}; then run with --full-refresh",
        )
    if not names.own:
        raise refused(names, f"there is no publication {names.publication}", create)
    try:
        held.execute(create.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        user = quote_identifier(str(held.info.user))
        raise refused(
            names,
            "the user may not make a publication for the table",
            f"as the owner of the table run {create}, or GRANT CREATE ON DATABASE … TO {user} and make it the owner",
        ) from error
    except psycopg.errors.DuplicateObject:
        pass  # another run made it in this moment
    except psycopg.Error as error:
        raise statement_error(error, names.subject) from error


def publication_fault(held: psycopg.Connection[Any], names: CaptureNames, table: CapturedTable) -> str | None:
    """What is wrong with the publication: ``missing``, or the rest of a sentence; ``None`` if nothing is."""
    rows = ask(
        held,
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_catalog.pg_publication "
        "WHERE pubname = %s",
        (names.publication,),
        names.subject,
    )
    if not rows:
        return "missing"
    if not rows[0][0]:
        return "does not publish insert, update, delete and truncate"
    cut = "false"
    if held.info.server_version >= _PUBLISHED_SINCE:
        cut = (
            "t.rowfilter IS NOT NULL OR (SELECT count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s::oid "
            "AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attname <> ALL (t.attnames)) > 0"
        )
    given = (table.oid,) if "%s" in cut else ()
    listed = ask(
        held,
        f"SELECT {cut} FROM pg_catalog.pg_publication_tables t "
        "WHERE t.pubname = %s AND t.schemaname = %s AND t.tablename = %s",
        (*given, names.publication, names.table.schema, names.table.table),
        names.subject,
    )
    if not listed:
        return "does not hold the table (or only its partitions)"
    return "leaves out rows or columns of the table" if listed[0][0] else None


def publication_identity(held: psycopg.Connection[Any], names: CaptureNames, table: CapturedTable) -> str:
    """What changes when the publication, or the table in it, was removed and added again; empty if it is not there."""
    rows = ask(
        held,
        "SELECT p.oid::int8, coalesce(r.oid::int8, 0) FROM pg_catalog.pg_publication p "
        "LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = %s::pg_catalog.oid "
        "WHERE p.pubname = %s",
        (table.oid, names.publication),
        names.subject,
    )
    return f"{rows[0][0]}/{rows[0][1]}" if rows else ""


def create_slot(
    settings: Settings, names: CaptureNames, *, temporary: bool
) -> tuple[psycopg.Connection[Any], str, str]:
    """Make a slot and export the state at its beginning.

    Args:
        settings: of the connection.
        names: of the dataset; a temporary slot gets a name of its own.
        temporary: whether it goes with the connection.

    Returns:
        The connection, which must stay open until the snapshot was taken up; the place in the log; the snapshot.

    Raises:
        ConnectorError: PZ0338 for a missing right, or what the server said.
    """
    import secrets

    import psycopg

    try:
        held = connect(settings, replication="database")
    except ConnectorError as error:
        if re.search(r"wal\s?sender", error.message, re.IGNORECASE):
            raise _no_right(names, settings.user) from error
        raise
    name = f"pz_tmp_{secrets.token_hex(8)}" if temporary else names.slot
    words = " TEMPORARY" if temporary else ""
    try:
        sql = f"CREATE_REPLICATION_SLOT {quote_identifier(name)}{words} LOGICAL pgoutput EXPORT_SNAPSHOT"
        row = held.execute(sql.encode()).fetchone()
        assert row is not None
        return held, str(row[1]), str(row[2])
    except psycopg.Error as error:
        held.close()
        raise _slot_error(error, names, settings.user) from error


def _no_right(names: CaptureNames, user: str | None) -> ConnectorError:
    who = "…" if user is None else quote_identifier(user)
    return refused(
        names,
        "the user may not use replication slots",
        f"ALTER ROLE {who} REPLICATION (a hosted server has a role to grant instead)",
    )


def _slot_error(error: psycopg.Error, names: CaptureNames, user: str | None) -> ConnectorError:
    if error.sqlstate == "42501":
        return _no_right(names, user)
    made = statement_error(error, names.subject)
    if error.sqlstate == "53400":
        made.hint = "remove slots that nobody needs (pz cdc drop), or raise max_replication_slots"
    elif error.sqlstate == "55P03":
        made.hint = "a transaction on the server has been open for long: end it, or raise command_timeout_seconds"
    return made


def drop_slot(held: psycopg.Connection[Any], names: CaptureNames) -> None:
    """Remove the slot."""
    import psycopg

    try:
        held.execute(f"SELECT pg_catalog.pg_drop_replication_slot({quote_literal(names.slot)})".encode())
    except psycopg.errors.UndefinedObject:
        pass
    except psycopg.Error as error:
        raise statement_error(error, names.subject) from error


def refused(names: CaptureNames, why: str, hint: str) -> ConnectorError:
    """PZ0338: something must be changed at the place first."""
    return ConnectorError(f"{names.subject}: changes cannot be captured: {why}", code="PZ0338", hint=hint)

"""DuckDB's errors as coded faults: whose fault it is, whether it may pass, and what to do next.

Sources: engine.md 1.6 (the closed list of transient phrases) and 1.16 (messages that get a next step); error texts of
DuckDB 1.5.5 as observed.
"""

from __future__ import annotations

import os
import re

from pz_core.contract.connector import ConnectorError
from pz_core.contract.refusals import read_refusal
from pz_core.errors import PzError, Where
from pz_core.values.duckdb_text import before_echo, clean_message, without_values

#: Statuses that may pass, directly after ``HTTP``; any other 4xx there is final.
_PASSING_STATUS = re.compile(r"\bHTTP (?:500|502|503|504|408|429)\b")
_FINAL_STATUS = re.compile(r"\bHTTP 4\d\d\b")
_PASSING_PHRASE = re.compile(
    r"connection (?:refused|reset|error|timed out)|could not establish connection|timed out|\btimeout\b"
    # What the extension httpfs says where no answer came, or half of one.
    r"|(?:could not|couldn't) connect to server|receiving data from the peer|sending data to the peer"
    r"|server returned nothing|transferred a partial file"
    # What the extension postgres hands on from libpq and from a server that stops.
    r"|server closed the connection|terminating connection|could not (?:receive|send) data|no connection to the server"
    r"|database system is (?:starting up|shutting down|in recovery)",
    re.IGNORECASE,
)
#: A server that has no connection left, for now.
_FULL = re.compile(r"too many (?:clients|connections)|remaining connection slots", re.IGNORECASE)
#: Two loads of one target that met; the one that lost can be done again.
_CONFLICT = re.compile(r"(?:write-write conflict|Conflict on (?:update|tuple deletion))", re.IGNORECASE)
#: A database file that another process has open, and may close again.
_LOCKED = re.compile(r"Could not set lock on file|being used by another process", re.IGNORECASE)
#: Names that a message quotes, and addresses: what stands in them says nothing about the fault.
_QUOTED = re.compile(r"(?<![A-Za-z])'[^'\n]*'|\"[^\"\n]*\"|\S+://\S+")

#: Messages whose next step is told in the hint alone.
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"No space left on device|not enough space on the disk", re.IGNORECASE),
        "free some space; pz clean removes staging files of past runs",
    ),
    (
        _LOCKED,
        "close the other program that uses the file; a DuckDB file has one writer, or any number of readers, at a time",
    ),
    (
        re.compile(r"Cannot open file .*: No such file or directory", re.IGNORECASE | re.DOTALL),
        "create the folder that the file is to be in, or correct the path",
    ),
)
#: Messages whose next step is a part of the error too.
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"Out of Memory Error|could not allocate|failed to allocate", re.IGNORECASE),
        "raise engine.duckdb.memory_limit or lower engine.duckdb.threads",
    ),
    (
        re.compile(
            r"Maximum line size of \d+ bytes exceeded|buffer[_ ]size.*too small|value with unterminated quote",
            re.IGNORECASE,
        ),
        "a csv row is larger than the reader's buffer, or a quote is never closed: look for an open quote in the file",
    ),
    (
        re.compile(r"parallel (?:csv )?(?:reader|scanner)|parallel ?= ?false", re.IGNORECASE),
        "set engine.force_universal: true, which reads the file without DuckDB's parallel csv reader",
    ),
)


def is_full(text: str) -> bool:
    """Whether a server had no connection left, so that what asks for fewer may have one."""
    return bool(_FULL.search(_QUOTED.sub(" ", before_echo(text))))


def is_transient(text: str) -> bool:
    """Whether a fault of a native edge may pass, told from the part of DuckDB's message before the echoed statement."""
    text = _QUOTED.sub(" ", before_echo(text))
    if _PASSING_STATUS.search(text):
        return True
    if _FINAL_STATUS.search(text):
        return False
    return is_full(text) or bool(_PASSING_PHRASE.search(text) or _CONFLICT.search(text) or _LOCKED.search(text))


def next_step(text: str) -> str | None:
    """What to do about the few messages that say nothing of pz's own settings."""
    return next((step for pattern, step in (*_STEPS, *_HINTS) if pattern.search(text)), None)


def _with_step(message: str) -> str:
    step = next((step for pattern, step in _STEPS if pattern.search(message)), None)
    return f"{message}\n{step}" if step else message


def pipeline_error(error: BaseException, node: str, hint: str) -> PzError:
    """A fault of SQL that the user wrote (PZ0501), in DuckDB's words and without the echoed statement."""
    text = str(error)
    refused = read_refusal(text)
    if refused is not None:
        return PzError(refused.code, refused.message, where=Where(node=node), hint=refused.hint or hint, cause=error)
    message = clean_message(text) or f"DuckDB failed with {type(error).__name__}"
    return PzError("PZ0501", _with_step(message), where=Where(node=node), hint=next_step(message) or hint, cause=error)


def edge_error(error: BaseException, subject: str, node: str) -> ConnectorError:
    """A fault of a native edge: DuckDB read or wrote a place by itself. No value of the data stands in it.

    Args:
        error: what DuckDB raised.
        subject: ``connection.entity``.
        node: name of the node.
    """
    text = str(error)
    refused = read_refusal(text)
    if refused is not None:
        refused.where = Where(node=node)
        return refused
    transient = is_transient(text)
    message = without_values(clean_message(text)) or f"DuckDB failed with {type(error).__name__}"
    hint = next_step(message) or (
        "the place may be back later; retries follow retry: of the connection or the entity"
        if transient
        else f"check the connection and the options of {subject}"
    )
    return ConnectorError(
        _with_step(f"{subject}: {message}"), transient=transient, where=Where(node=node), hint=hint, cause=error
    )


def foreign_error(error: Exception, subject: str, node: str) -> PzError:
    """Whatever a connector let escape: final, since only a :class:`ConnectorError` can say that it may pass.

    Its text may hold a value of the data, so it is not told; of a fault of the system the file and the kind are.
    """
    if isinstance(error, OSError) and error.errno:
        place = f": {error.filename}" if isinstance(error.filename, str) else ""
        return PzError(
            "PZ0501",
            f"{subject}: {os.strerror(error.errno)}{place}",
            where=Where(node=node),
            hint="check that the place is there and that this user may use it",
            cause=error,
        )
    return PzError(
        "PZ0501",
        f"{subject}: the connector failed with {type(error).__name__}",
        where=Where(node=node),
        hint="set PZ_DEBUG=1 to see where; the connector should have raised a ConnectorError, tell its authors",
        cause=error,
    )


def counts_disagree(subject: str, node: str, **counts: int) -> PzError:
    """PZ0811 with every count by name."""
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    return PzError(
        "PZ0811",
        f"{subject}: row counts disagree: {told}",
        where=Where(node=node),
        hint="rows were lost or doubled on the way; run it again, and report it to the connector's authors if it stays",
    )

"""Rules of declared reads and writes: cursors, windows, calendar tokens in paths, and a few options."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from pz_core.compile.binding import Read, Write
from pz_core.compile.cursors import (
    CALENDAR_TYPES,
    canonical_cursor,
    canonical_width,
    cursor_family,
    later,
    value_rule,
    width_rule,
)
from pz_core.errors import Problems
from pz_core.project.model import SyncConfig
from pz_core.values import CURSOR_TYPES, Value, canonical_json

#: Calendar tokens of a path, coarse to fine; `yy` is a short year.
_LEVELS: dict[str, int] = {"yyyy": 0, "yy": 0, "MM": 1, "dd": 2, "HH": 3, "mm": 4}
_BRACED = re.compile(r"\{([A-Za-z]+)\}")
#: Letters that calendars are written with; two or more of one in braces are meant as a token, known or not.
_CALENDAR_LETTERS = frozenset("yYmMdDhHsS")
_TOKENS = "{yyyy} {MM} {dd} {HH} {mm}"


class Cursor(Struct, frozen=True):
    """The cursor of a YAML incremental read, checked.

    Args:
        sync: the ``sync`` block with its values in canonical form where they have one.
        type: type word of the cursor, ``None`` where nothing declares it.
    """

    sync: SyncConfig
    type: str | None


def check_read(read: Read, problems: Problems) -> Cursor | None:
    """All rules of one dataset that need neither its connector nor SQL; the cursor of a YAML incremental read.

    Faults: PZ0212, PZ0213, PZ0217, PZ0218, PZ0221, PZ0222, PZ0229, PZ0137.
    """
    options = read.declaration.options
    check_json(read.dataset, options, read, problems)
    _check_files_per_partition(read.dataset, options, read, problems)
    sync = read.declaration.sync
    cursor: Cursor | None = None
    if sync is not None and sync.mode == "incremental":
        kind, why = _cursor_type(read, sync.cursor or "")
        cursor = _check_window(read, sync, kind, why, problems)
        if options.get("cursor_order") == "desc" and "max_pages" in options:
            problems.error(
                "PZ0229",
                f"{read.dataset} is read incrementally with cursor_order: desc and max_pages: a crawl cut short would "
                f"move the watermark past rows that it did not see",
                where=read.at("max_pages"),
                hint="remove max_pages, or read with cursor_order: asc",
            )
    _check_read_path(read, cursor, problems)
    return cursor


def _cursor_type(read: Read, cursor: str) -> tuple[str | None, str | None]:
    """The type word of the cursor and, where there is none that may be used, why."""
    columns, options = read.declaration.columns, read.declaration.options
    allowed = ", ".join(CURSOR_TYPES)
    word: object
    if columns:
        if cursor not in columns:
            return None, f"cursor '{cursor}' is not among its columns: ({', '.join(columns)})"
        word = columns[cursor]
    elif options.get("cursor") == cursor and "cursor_type" in options:
        word = options["cursor_type"]
    else:
        return None, None
    if cursor_family(word) is not None:
        return str(word), None
    return None, f"cursor '{cursor}' has type '{word}', which is no cursor type (allowed: {allowed})"


def _check_window(read: Read, sync: SyncConfig, kind: str | None, why: str | None, problems: Problems) -> Cursor:
    def refuse(what: str, hint: str, code: str = "PZ0213") -> None:
        problems.error(code, f"{read.dataset}: {what}", where=read.at("sync"), hint=hint)

    if sync.max_window is None:
        if why is not None:
            refuse(why, "declare the cursor column in columns: with one of the allowed types", "PZ0212")
        elif kind is None:
            problems.note(
                f"{read.dataset}: without columns: the type of cursor '{sync.cursor}' is known only when it has landed",
                where=read.at("sync"),
            )
        for key in ("initial", "until"):
            if getattr(sync, key) is not None:
                refuse(
                    f"'{key}: {getattr(sync, key)}' has no max_window beside it",
                    f"add max_window:, or remove {key}:",
                )
        return Cursor(sync, kind)
    if sync.initial is None:
        refuse(
            f"max_window: {sync.max_window} has no initial beside it, so a first run would not know where to start",
            "add initial: with the value to start above",
        )
    if isinstance(read.declaration.options.get("query"), str):
        refuse(
            f"a query: in SQL cannot be read with max_window: {sync.max_window}, for pz cannot bound it",
            "name the table as the entity and drop query:, or remove max_window:",
        )
    if kind is None:
        reason = why or f"the type of cursor '{sync.cursor}' is not known, for it has no columns:"
        refuse(
            f"max_window: {sync.max_window} needs a cursor of a known type, and {reason}",
            f"declare '{sync.cursor}' in columns: with one of {', '.join(CURSOR_TYPES)}",
        )
        return Cursor(sync, None)
    return Cursor(_canonical(sync, cursor_family(kind) or kind, refuse), kind)


def _canonical(sync: SyncConfig, kind: str, refuse: object) -> SyncConfig:
    assert callable(refuse) and sync.max_window is not None
    width = canonical_width(kind, sync.max_window)
    if width is None:
        refuse(
            f"max_window: {sync.max_window} does not fit cursor '{sync.cursor}' of type {kind}",
            f"write {width_rule(kind)}",
        )
    made: dict[str, str | None] = {}
    for key in ("initial", "until"):
        text = getattr(sync, key)
        if key == "until" and text == "now" and kind in CALENDAR_TYPES:
            continue  # the start of each run; whether it lies above initial only the run can tell
        made[key] = None if text is None else canonical_cursor(kind, text)
        if text is not None and made[key] is None:
            refuse(
                f"{key}: {text} is no value of cursor '{sync.cursor}' of type {kind}",
                f"write {value_rule(kind)}",
            )
    initial, until = made["initial"], made.get("until")
    if initial is not None and until is not None and not later(kind, until, initial):
        refuse(
            f"until: {sync.until} does not lie above initial: {sync.initial}",
            "give an until: above initial:",
        )
    return replace(
        sync, max_window=width or sync.max_window, initial=initial or sync.initial, until=until or sync.until
    )


# --- calendar tokens -------------------------------------------------------------------------------------------------


def calendar_tokens(path: object) -> tuple[str, ...]:
    """Calendar tokens of a path in their order, known or not; ``{key}`` and the like are none."""
    if not isinstance(path, str):
        return ()
    found = _BRACED.findall(path)
    return tuple(t for t in found if t in _LEVELS or (len(t) > 1 and len(set(t)) == 1 and t[0] in _CALENDAR_LETTERS))


def _token_fault(tokens: tuple[str, ...]) -> str | None:
    unknown = [t for t in tokens if t not in _LEVELS]
    if unknown:
        return f"unknown calendar token {', '.join(f'{{{t}}}' for t in unknown)}"
    if [_LEVELS[t] for t in tokens] != list(range(len(tokens))):
        return f"calendar tokens {' '.join(f'{{{t}}}' for t in tokens)} do not run from the year down without a gap"
    return None


def _refuse_tokens(subject: str, tokens: tuple[str, ...], place: Read | Write, problems: Problems) -> None:
    fault = _token_fault(tokens)
    if fault is not None:
        problems.error(
            "PZ0218",
            f"{subject}: {fault}",
            where=place.at("path"),
            hint=f"use {_TOKENS} from the left, as far as you need",
        )


def _check_read_path(read: Read, cursor: Cursor | None, problems: Problems) -> None:
    tokens = calendar_tokens(read.declaration.options.get("path"))
    if not tokens:
        return
    _refuse_tokens(read.dataset, tokens, read, problems)
    if cursor is None or cursor.type not in CALENDAR_TYPES:
        problems.error(
            "PZ0217",
            f"{read.dataset}: its path has calendar tokens, and no incremental cursor of type "
            f"{' or '.join(CALENDAR_TYPES)} says which folders to read",
            where=read.at("path"),
            hint="add sync: {mode: incremental, cursor: …, max_window: …, initial: …} on a date or timestamp column of "
            "columns:, or replace the tokens by *",
        )
    elif cursor.sync.max_window is None or cursor.sync.initial is None:
        problems.error(
            "PZ0221",
            f"{read.dataset}: its path has calendar tokens, and its read has no window to say which folders it needs",
            where=read.at("sync"),
            hint="add max_window: and initial: to sync:",
        )


def check_write(write: Write, problems: Problems) -> None:
    """Rules of an output's options: PZ0218, PZ0219, PZ0222, PZ0137."""
    options = write.declaration.options
    check_json(write.output, options, write, problems)
    _check_files_per_partition(write.output, options, write, problems)
    tokens = calendar_tokens(options.get("path"))
    columns = _partition_columns(options.get("partition_by"))
    if columns is None:
        problems.error(
            "PZ0219",
            f"{write.output}: partition_by must be the name of a column or a list of names",
            where=write.at("partition_by"),
            hint="write partition_by: 'day', or partition_by: ['region', 'day']",
        )
    elif tokens and len(columns) != 1:
        has = f"{len(columns)} columns ({', '.join(columns)})" if columns else "no column"
        problems.error(
            "PZ0219",
            f"{write.output}: calendar tokens in path need partition_by with exactly one date or timestamp column, "
            f"and it has {has}",
            where=write.at("path"),
            hint="name the one column whose date makes the folders, or take the tokens out of path",
        )
    _refuse_tokens(write.output, tokens, write, problems)


def _partition_columns(value: Value | None) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value.strip() else None
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, str) and v.strip() for v in value):
        return tuple(str(v) for v in value)
    return None


# --- other options ---------------------------------------------------------------------------------------------------


def _check_files_per_partition(
    subject: str, options: Mapping[str, Value], place: Read | Write, problems: Problems
) -> None:
    value = options.get("files_per_partition")
    if value is None:
        return
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        problems.error(
            "PZ0222",
            f"{subject}: files_per_partition must be a positive whole number, got {value!r}",
            where=place.at("files_per_partition"),
            hint="write a number such as files_per_partition: 4",
        )


def check_json(subject: str, options: Mapping[str, Value], place: Read | Write, problems: Problems) -> None:
    """PZ0137 for each option whose value has no canonical JSON form; the value itself is not shown."""
    for name, value in options.items():
        try:
            canonical_json(value)
        except (ValueError, RecursionError):
            problems.error(
                "PZ0137",
                f"{subject}: the value of option '{name}' has no JSON form",
                where=place.at(name),
                hint="use texts, finite numbers, true, false, lists and mappings of these",
            )

"""The small blocks that stand in several places: ``retry``, ``rate_limit``, ``sync``, ``columns``.

Each reader takes plain values, so a block means the same in YAML and at a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pz_core.errors import Problems, Where
from pz_core.project.model import RateLimit, RetryConfig, SyncConfig
from pz_core.project.shapes import did_you_mean, one_of, shown, whole_value
from pz_core.project.yaml import printed
from pz_core.values import CONTRACT_TYPES, Value, is_type_word
from pz_core.values.durations import parse_duration

#: The place of a key inside a block, or of the whole block for ``None``.
Place = Callable[[str | None], Where]

RETRY_KEYS = ("max_attempts", "base_delay", "max_delay")
RATE_KEYS = ("requests_per_minute", "burst")
_MOST_REQUESTS = 1_000_000
#: What ``sync:`` takes beside ``mode``, by mode.
SYNC_KEYS: dict[str, tuple[str, ...]] = {
    "auto": (),
    "incremental": ("cursor", "max_window", "initial", "until"),
    "cdc": ("slot",),
}


def read_retry(value: Value, *, lead: str, where: Place, problems: Problems) -> RetryConfig | None:
    """Read a ``retry:`` block; PZ0121 for each field that is wrong. ``lead`` says whose block it is."""
    hint = "retry takes max_attempts (a whole number from 1 up), base_delay and max_delay (durations such as 2s, 1m)"
    if not isinstance(value, Mapping):
        problems.error("PZ0121", f"{lead}: retry must be a mapping, got {shown(value)}", where=where(None), hint=hint)
        return None
    for key in value:
        if key not in RETRY_KEYS:
            problems.error(
                "PZ0121",
                f"{lead}: retry has no key '{key}'",
                where=where(key),
                hint=f"{did_you_mean(key, RETRY_KEYS)}{hint}",
            )
    attempts: int | None = None
    if "max_attempts" in value:
        attempts = whole_value(value["max_attempts"], 1)
        if attempts is None:
            got = shown(value["max_attempts"])
            problems.error(
                "PZ0121",
                f"{lead}: retry.max_attempts must be a whole number from 1 up, got {got}",
                where=where("max_attempts"),
                hint=hint,
            )
    delays: dict[str, int | None] = {}
    for key in ("base_delay", "max_delay"):
        delays[key] = None
        if key in value:
            delays[key] = parse_duration(value[key]) or None
            if delays[key] is None:
                problems.error(
                    "PZ0121",
                    f"{lead}: retry.{key} must be a duration above zero, got {shown(value[key])}",
                    where=where(key),
                    hint="write digits and one of ms, s, m, h, d: 500ms, 2s, 1m",
                )
    base, longest = delays["base_delay"], delays["max_delay"]
    if base is not None and longest is not None and longest < base:
        problems.error(
            "PZ0121",
            f"{lead}: retry.max_delay {shown(value['max_delay'])} is below base_delay {shown(value['base_delay'])}",
            where=where("max_delay"),
            hint="make max_delay at least as long as base_delay",
        )
    return RetryConfig(attempts, base, longest)


def read_rate_limit(value: Value, *, lead: str, where: Place, problems: Problems) -> RateLimit | None:
    """Read a connection's ``rate_limit:`` block; PZ0318 for each field that is wrong."""
    hint = f"rate_limit takes requests_per_minute (needed) and burst, whole numbers from 1 to {_MOST_REQUESTS}"
    if not isinstance(value, Mapping):
        problems.error(
            "PZ0318", f"{lead}: rate_limit must be a mapping, got {shown(value)}", where=where(None), hint=hint
        )
        return None
    for key in value:
        if key not in RATE_KEYS:
            problems.error(
                "PZ0318",
                f"{lead}: rate_limit has no key '{key}'",
                where=where(key),
                hint=f"{did_you_mean(key, RATE_KEYS)}{hint}",
            )
    numbers: dict[str, int | None] = {}
    for key in RATE_KEYS:
        numbers[key] = None
        if key in value:
            numbers[key] = whole_value(value[key], 1, _MOST_REQUESTS)
            if numbers[key] is None:
                got = shown(value[key])
                problems.error(
                    "PZ0318",
                    f"{lead}: rate_limit.{key} must be a whole number from 1 to {_MOST_REQUESTS}, got {got}",
                    where=where(key),
                    hint=hint,
                )
    if "requests_per_minute" not in value:
        problems.error("PZ0318", f"{lead}: rate_limit lacks requests_per_minute", where=where(None), hint=hint)
    requests = numbers["requests_per_minute"]
    return None if requests is None else RateLimit(requests, numbers["burst"])


def read_sync(value: Value, *, lead: str, where: Place, problems: Problems) -> SyncConfig | None:
    """Read a ``sync:`` block; PZ0334 for whatever breaks the rules of its mode. Numbers are kept as text."""

    def refuse(what: str, hint: str, key: str | None = None) -> None:
        problems.error("PZ0334", f"{lead}: {what}", where=where(key), hint=hint)

    modes = one_of(tuple(SYNC_KEYS))
    if not isinstance(value, Mapping):
        refuse(f"sync must be a mapping with a mode, got {shown(value)}", f"write sync: {{mode: …}}; modes: {modes}")
        return None
    if "mode" not in value:
        refuse("sync lacks its mode", f"write sync: {{mode: …}}; modes: {modes}")
        return None
    mode = value["mode"]
    if not isinstance(mode, str) or mode not in SYNC_KEYS:
        near = did_you_mean(mode, SYNC_KEYS) if isinstance(mode, str) else ""
        refuse(f"sync.mode {shown(mode)} is not known", f"{near}modes: {modes}", "mode")
        return None
    allowed = SYNC_KEYS[mode]
    fine = True
    foreign = [key for key in value if key != "mode" and key not in allowed]
    if foreign:
        takes = f"sync with mode {mode} takes {one_of(allowed)}" if allowed else f"mode {mode} takes nothing else"
        refuse(
            f"sync with mode {mode} does not take {one_of(foreign)}",
            f"{did_you_mean(foreign[0], allowed)}{takes}",
            foreign[0],
        )
        fine = False
    texts: dict[str, str] = {}
    for key in allowed:
        given = value.get(key)
        if isinstance(given, (str, int, float)):
            texts[key] = printed(given)
        elif given is not None:
            refuse(
                f"sync.{key} must be one value, got {shown(given)}", f"write {key}: followed by a text or a number", key
            )
            fine = False
    if mode == "incremental" and fine and not texts.get("cursor", "").strip():
        refuse(
            "sync with mode incremental lacks its cursor",
            "name the column that grows: sync: {mode: incremental, cursor: updated_at}",
        )
        fine = False
    return SyncConfig(mode, **{key: text for key, text in texts.items() if text != ""}) if fine else None


def read_columns(value: Value, *, lead: str, where: Place, problems: Problems) -> Mapping[str, str] | None:
    """Read a contract, ``columns:``; an empty one is none. PZ0101 for a shape or a type word that is not known.

    Args:
        value: what was written.
        lead: whose contract it is.
        where: the place of a column.
        problems: gets the faults.
    """
    if not isinstance(value, Mapping):
        problems.error(
            "PZ0101",
            f"{lead}: columns must be a mapping of names to types, got {shown(value)}",
            where=where(None),
            hint="write columns: {id: bigint, name: varchar}",
        )
        return None
    made: dict[str, str] = {}
    spelled: dict[str, str] = {}
    words = one_of(tuple(CONTRACT_TYPES))
    for name, word in value.items():
        if not name.strip():
            problems.error(
                "PZ0101", f"{lead}: columns names a column with no name", where=where(name), hint="name the column"
            )
            continue
        twin = spelled.setdefault(name.casefold(), name)
        if twin != name:
            problems.error(
                "PZ0101",
                f"{lead}: columns '{twin}' and '{name}' differ by the case of letters only",
                where=where(name),
                hint="SQL takes them for one column; keep one of them",
            )
            continue
        if not isinstance(word, str):
            problems.error(
                "PZ0101",
                f"{lead}: columns.{name} must be a type word, got {shown(word)}",
                where=where(name),
                hint=f"types are plain words: {words}, or decimal(p,s)",
            )
        elif not is_type_word(word):
            problems.error(
                "PZ0101",
                f"{lead}: columns.{name} has the unknown type {shown(word)}",
                where=where(name),
                hint=_type_hint(word, words),
            )
        else:
            made[name] = word
    return made or None


def _type_hint(word: str, words: str) -> str:
    if word.lower().startswith("decimal("):
        return "write decimal(p,s) with 1 <= p <= 38 and s <= p; between { and } quote it: 'decimal(10,2)'"
    if is_type_word(word.lower()):
        return f"type words are written in lower case: {word.lower()}"
    return f"{did_you_mean(word, CONTRACT_TYPES)}types: {words}, or decimal(p,s)"

"""``pz clean``: the same sweep as after a run, on demand and with a selector."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pz_core.contract.state import RunStore
from pz_core.errors import PzError
from pz_core.run.retention import Sweep, run_places, sweep
from pz_core.run.runid import instant_of, is_run_id
from pz_core.values.durations import parse_duration


def clean(
    root: Path,
    *,
    keep_last: int | str | None = None,
    older_than: str | None = None,
    purge: bool = False,
    dry_run: bool = False,
    now: datetime | None = None,
    store: RunStore | None = None,
) -> Sweep:
    """Remove staging databases of old runs, and stale working folders. State, target and packages are never touched.

    Args:
        root: the project.
        keep_last: how many of the newest runs are spared, 1 if nothing is given; 0 takes all.
        older_than: a duration such as ``7d``; the newest run and what has no date are spared whatever their age.
        purge: remove whole directories of runs, results included.
        dry_run: only tell what would be removed.
        now: the present instant, for tests.
        store: where runs are beside ``.pz/runs``; those are removed whole, ``purge`` or not.

    Raises:
        PzError: PZ0511 if both selectors are given, PZ0512 if one is no number or no duration;
            what the store says.
    """
    if keep_last is not None and older_than is not None:
        raise PzError(
            "PZ0511",
            f"--keep-last {keep_last} and --older-than {older_than} cannot be combined",
            hint="give one of the two",
        )
    directories = run_places(root, store)
    if older_than is None:
        victims = directories[_count(keep_last) :]
    else:
        limit = _limit(older_than, now or datetime.now(UTC))
        victims = tuple(d for d in _dated(directories)[1:] if _older(d, limit))
    return sweep(root, victims, purge=purge, dry_run=dry_run, store=store)


def _count(value: int | str | None) -> int:
    if value is None:
        return 1
    text = str(value)
    if not (text.isascii() and text.isdecimal()):
        raise PzError(
            "PZ0512", f"--keep-last {value} is no whole number of at least 0", hint="write a number such as 5"
        )
    return int(text)


def _limit(text: str, now: datetime) -> datetime | None:
    length = parse_duration(text)
    if length is None:
        raise PzError(
            "PZ0512",
            f"--older-than {text} is no duration",
            hint="write a number and one of ms, s, m, h, d, such as 30m, 12h or 7d",
        )
    try:
        return now - timedelta(milliseconds=length)
    except OverflowError:
        return None  # older than the calendar: nothing is


def _dated(directories: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(d for d in directories if is_run_id(d.name))


def _older(directory: Path, limit: datetime | None) -> bool:
    at = instant_of(directory.name)
    return at is not None and limit is not None and at < limit

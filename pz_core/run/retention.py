"""Old staging databases and working folders are removed; results are kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from pz_core.contract.state import RunStore
from pz_core.errors import PzError
from pz_core.run.history import run_directories, runs_dir
from pz_core.run.lock import idle, is_live
from pz_core.run.results import FILE, read_results
from pz_core.run.runid import is_run_id

#: Rows of a run and what belongs to them; of no use to anybody without the rows.
STAGING_FILES = ("staging.duckdb", "staging.duckdb.wal", "tokens.json")


class Sweep(Struct, frozen=True):
    """What a sweep did, or would do.

    Args:
        runs: names of the runs that were swept.
        bytes_freed: what they took on the disk.
        failed: what could not be removed.
        live: runs that were spared because they are going on.
        work_dirs: number of stale working folders removed.
        whole: whether runs were removed whole, with their results.
    """

    runs: tuple[str, ...] = ()
    bytes_freed: int = 0
    failed: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    work_dirs: int = 0
    whole: bool = False

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.runs or self.failed or self.work_dirs)


def run_places(root: Path, store: RunStore | None) -> tuple[Path, ...]:
    """Directories of runs as :func:`run_directories` gives them, with those of runs that only the store has.

    Raises:
        PzError: what the store says.
    """
    here = run_directories(root)
    if store is None:
        return here
    elsewhere = {head.run_id for head in store.heads() if is_run_id(head.run_id)} - {d.name for d in here}
    both = (*here, *(runs_dir(root) / name for name in elsewhere))
    return tuple(sorted(both, key=lambda d: (is_run_id(d.name), d.name), reverse=True))


def retain(
    root: Path,
    keep_last: int | None,
    current: str,
    work_bases: Iterable[Path] = (),
    store: RunStore | None = None,
) -> Sweep:
    """Sweep after a run: staging of all but the newest runs, and stale working folders always.

    Args:
        root: the project.
        keep_last: how many runs keep their staging database; ``None`` for all.
        current: id of the run that just ended, never swept.
        work_bases: folders that hold working folders, beside ``.pz/tmp``.
        store: where runs are beside ``.pz/runs``; those are removed whole, rows and directory.

    Raises:
        PzError: what the store says.
    """
    victims: list[Path] = []
    if keep_last is not None:
        victims = [d for d in run_places(root, store)[keep_last:] if d.name != current]
    return sweep(root, victims, work_bases=work_bases, store=store)


def sweep(
    root: Path,
    victims: Iterable[Path],
    *,
    purge: bool = False,
    dry_run: bool = False,
    work_bases: Iterable[Path] = (),
    store: RunStore | None = None,
) -> Sweep:
    """Remove staging databases, or with ``purge`` whole directories, of runs that are over. Failures are counted.

    A directory that is not named like a run is not ours to purge: only a staging database in it is removed. A run that
    is or was in ``store`` goes whole: from there, and its directory here.

    Raises:
        PzError: what the store says before anything was removed.
    """
    stored = _Stored(store)
    runs: list[str] = []
    failed: list[str] = []
    live: list[str] = []
    freed = 0
    for directory in victims:
        whole = is_run_id(directory.name) and (purge or stored.has(directory))
        if not whole and not any((directory / name).exists() for name in STAGING_FILES):
            continue
        with idle(directory) as free:
            if not free or stored.lives(directory.name):
                live.append(directory.name)
                continue
            size = _size(directory) if whole else sum(_size(directory / name) for name in STAGING_FILES)
            if not dry_run and not (stored.remove(directory.name) and _remove(directory, whole)):
                failed.append(directory.name)
                continue
        runs.append(directory.name)
        freed += size
    removed, work_freed, work_failed = _sweep_work(root, work_bases, dry_run)
    whole_runs = purge or store is not None
    return Sweep(tuple(runs), freed + work_freed, (*failed, *work_failed), tuple(live), removed, whole_runs)


class _Stored:
    """The runs of a store, as far as a sweep asks for them."""

    def __init__(self, store: RunStore | None) -> None:
        self._store = store
        self._heads = {} if store is None else {head.run_id: head for head in store.heads()}
        self._dead = False

    def has(self, directory: Path) -> bool:
        """Whether a run is there, or was: then another machine has swept it, and what is left of it here goes too."""
        if self._store is None or directory.name in self._heads:
            return self._store is not None
        try:
            return read_results(directory / FILE).stored_in == self._store.identity()
        except (OSError, ValueError):
            return False

    def lives(self, name: str) -> bool:
        head = self._heads.get(name)
        return head is not None and head.live

    def remove(self, name: str) -> bool:
        """Whether nothing of a run is there now."""
        if self._store is None or name not in self._heads:
            return True
        if self._dead:
            return False
        try:
            return self._store.remove(name) != "live"
        except PzError as error:
            self._dead = error.code == "PZ0518"  # asking for each of the others would take a timeout each
            return False


def _sweep_work(root: Path, bases: Iterable[Path], dry_run: bool) -> tuple[int, int, list[str]]:
    removed, freed, failed = 0, 0, []
    for base in dict.fromkeys((root / ".pz" / "tmp", *bases)):
        if not base.is_dir():
            continue
        for directory in sorted(base.iterdir()):
            if directory.is_symlink() or not directory.is_dir() or not is_run_id(directory.name):
                continue
            if is_live(runs_dir(root) / directory.name):
                continue
            size = _size(directory)
            if not dry_run and not _remove(directory, whole=True):
                failed.append(directory.name)
                continue
            removed += 1
            freed += size
    return removed, freed, failed


def _remove(directory: Path, whole: bool) -> bool:
    try:
        if whole:
            if directory.exists():
                shutil.rmtree(directory)
        else:
            for name in STAGING_FILES:
                (directory / name).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(_size(Path(base) / name) for base, _, names in os.walk(path) for name in names)
    try:
        return path.lstat().st_size
    except OSError:
        return 0

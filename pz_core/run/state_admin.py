"""The state by hand: what is stored, and the three changes that a person may make to it.

Sources: engine.md 6.7, cli-connectors.md 1.19, DECISIONS 8 and 10. All of it works on a project that no longer loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from pz_core.compile.cursors import canonical_cursor, cursor_family, later, value_rule
from pz_core.contract.state import StateBackend, StateEntry
from pz_core.errors import Notice, PzError
from pz_core.plugins import Registry
from pz_core.project.names import staging_relation
from pz_core.project.state_only import load_state_config
from pz_core.run import state_audit
from pz_core.run.history import RunSummary, list_runs, run_directories
from pz_core.run.lock import is_live
from pz_core.run.runid import is_run_id
from pz_core.run.state import SYNC_STATE, WATERMARKS, open_state, state_notices
from pz_core.run.state_audit import Change
from pz_core.run.store import runs_of

#: What stands in the place of a run's id in an entry that was set by hand.
BY_HAND = "manual"

Action = Literal["set", "rollback", "clear"]


class StoredWatermark(Struct, frozen=True):
    """A watermark as it stands in the store, usable or not.

    Args:
        value: as stored.
        run_id: the run that stored it, or :data:`BY_HAND`.
        flaw: what is wrong with it, ``None`` if runs can use it.
    """

    key: str
    cursor: str | None
    type: str | None
    value: str | None
    run_id: str | None
    version: str
    flaw: str | None = None


class StoredToken(Struct, frozen=True):
    """The opaque token of a feed or a change capture; the token itself is nobody's business."""

    key: str
    run_id: str | None
    version: str


class Recorded(Struct, frozen=True):
    """What one run recorded of a dataset.

    Args:
        status: of the run.
        value: the candidate; ``None`` where the run read the dataset and found none.
    """

    run_id: str
    status: str
    cursor: str | None
    type: str | None
    value: str | None


class Planned(Struct, frozen=True):
    """A change that has been checked and not been made.

    Args:
        before: value that is stored, ``None`` for a token.
        after: value to store, ``None`` for ``clear``.
        consequence: what the change means for later runs, a sentence.
        writes: the sections to change, each with the version of the entry that was looked at.
    """

    action: Action
    key: str
    before: str | None
    after: str | None
    consequence: str
    writes: Mapping[str, str]
    payload: Mapping[str, str] | None = None
    to_run: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether the value is already what it is to be."""
        return self.action != "clear" and self.before == self.after


class StateAdmin:
    """The open state of a project. Use it as a context, so that the store is closed.

    Args:
        root: absolute folder of the project, which need not load.
        environ: environment variables; the process's own by default.

    Raises:
        PzError, PzErrors: PZ0101, PZ0124, PZ0125, PZ0518, PZ0519 and faults of the machine.
    """

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self._root = root
        config, _ = load_state_config(root, environ)
        self._backend: StateBackend = open_state(config, root, Registry())
        try:
            self._store = runs_of(self._backend, config)
            self._entries = self._backend.entries(WATERMARKS)
            self._tokens = self._backend.entries(SYNC_STATE)
        except BaseException:
            self._backend.close()
            raise

    def __enter__(self) -> StateAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.close()

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """Where the state is, in one line."""
        return self._backend.describe()

    @property
    def faults(self) -> tuple[Notice, ...]:
        """What cannot be read, as warnings."""
        return tuple(
            Notice("warning", n.message, n.code, n.where, n.hint) for n in dict.fromkeys(state_notices(self._backend))
        )

    def watermarks(self) -> tuple[StoredWatermark, ...]:
        """All watermarks, by key."""
        return tuple(_watermark(key, entry) for key, entry in self._entries.items())

    def tokens(self) -> tuple[StoredToken, ...]:
        """All tokens, by key."""
        return tuple(StoredToken(key, _text(e.payload.get("runId")), e.version) for key, e in self._tokens.items())

    def watermark(self, key: str) -> StoredWatermark | None:
        """The watermark of a key."""
        return None if key not in self._entries else _watermark(key, self._entries[key])

    def token(self, key: str) -> StoredToken | None:
        """The token of a key."""
        return next((token for token in self.tokens() if token.key == key), None)

    def known(self, key: str) -> None:
        """Refuse a key under which nothing is stored.

        Raises:
            PzError: PZ0513.
        """
        if key not in self._entries and key not in self._tokens:
            raise PzError(
                "PZ0513",
                f"nothing is stored under {key}",
                hint="pz state show lists the keys; of a dataset with change capture, pz cdc status tells more",
            )

    def history(self, key: str) -> tuple[Recorded, ...]:
        """What past runs recorded of a dataset, newest run first."""
        found = (_recorded(run, key) for run in list_runs(self._root, self._store))
        return tuple(item for item in found if item is not None)

    def ambiguous(self, key: str) -> tuple[str, ...]:
        """Other stored keys that runs record under the same name, so that the history may speak of them."""
        name = _node_name(key)
        others = {*self._entries, *self._tokens} - {key}
        return tuple(sorted(other for other in others if _node_name(other) == name))

    def changes(self, key: str, limit: int = 5) -> tuple[Change, ...]:
        """The last changes by hand, newest first."""
        return state_audit.changes(self._root, key, limit)

    # --- changing ------------------------------------------------------------------------------------------------

    def refuse_live(self) -> None:
        """Refuse while a run is going on, whichever dataset it reads.

        Raises:
            PzError: PZ0517 naming the run.
        """
        here = [d.name for d in run_directories(self._root) if is_run_id(d.name) and is_live(d)]
        anywhere = [] if self._store is None else [head.run_id for head in self._store.heads() if head.live]
        for name in (*here, *anywhere):
            raise PzError(
                "PZ0517",
                f"run {name} is going on, and the state is not changed under it",
                hint="wait until it has ended, then give the command again",
            )

    def plan_set(self, key: str, value: str) -> Planned:
        """Check a new value.

        Raises:
            PzError: PZ0513, PZ0515.
        """
        stored, kind = self._to_change(key)
        after = canonical_cursor(kind, value)
        if after is None:
            raise PzError(
                "PZ0515",
                f"'{value}' is no value for {key}, whose cursor '{stored.cursor}' is a {kind}",
                hint=f"write {value_rule(kind)}",
            )
        return self._moved("set", stored, kind, after, None)

    def plan_rollback(self, key: str, run_id: str) -> Planned:
        """Check a way back to what a run recorded.

        Raises:
            PzError: PZ0513, PZ0514, PZ0515.
        """
        stored, kind = self._to_change(key)
        run = next((run for run in list_runs(self._root, self._store) if run.run_id == run_id), None)
        if run is None or run.record is None:
            raise _nothing_recorded(key, run_id, "there is no such run" if run is None else "its results are damaged")
        recorded = _recorded(run, key)
        if recorded is None or recorded.value is None or recorded.type is None:
            raise _nothing_recorded(key, run_id, "it recorded no value of this dataset")
        if (recorded.cursor or "").casefold() != (stored.cursor or "").casefold():
            raise _nothing_recorded(key, run_id, f"it recorded cursor '{recorded.cursor}', not '{stored.cursor}'")
        same_family = _family(recorded.type) == _family(kind)
        after = canonical_cursor(kind, recorded.value) if same_family else None
        if after is None:
            raise _nothing_recorded(key, run_id, f"it recorded a {recorded.type}, and the stored cursor is a {kind}")
        before = canonical_cursor(kind, stored.value or "")
        if before is not None and later(kind, after, before):
            raise PzError(
                "PZ0515",
                f"{key}: run {run_id} recorded {after}, which lies above what is stored ({before}); "
                "a rollback goes back only",
                hint=f"pz state set {key} --value {after} goes forward and skips the rows between",
            )
        return self._moved("rollback", stored, kind, after, run_id)

    def plan_clear(self, key: str) -> Planned:
        """Check that there is something to forget.

        Raises:
            PzError: PZ0513.
        """
        self.known(key)
        stored, token = self.watermark(key), self.token(key)
        writes = {s: e.version for s, e in ((WATERMARKS, stored), (SYNC_STATE, token)) if e is not None}
        twice = "append outputs without a ledger then hold those rows twice"
        consequence = f"the next run reads the dataset in full; {twice}"
        return Planned("clear", key, None if stored is None else stored.value, None, consequence, writes)

    def apply(self, planned: Planned) -> None:
        """Make a change: the entry is still the one that was looked at, or nothing is changed.

        Raises:
            PzError: PZ0520 if somebody else wrote the entry meanwhile; PZ0518 and other faults of the store.
        """
        for scope, version in planned.writes.items():
            if planned.payload is None:
                self._backend.remove(scope, planned.key, version)
            else:
                self._backend.write(scope, planned.key, planned.payload, version)

    def audit(self, planned: Planned, reason: str | None) -> tuple[Change, OSError | None]:
        """Write the change down.

        Returns:
            The line, and why it could not be written, if it could not.
        """
        change = state_audit.made_now(
            planned.action, planned.key, planned.before, planned.after, to_run=planned.to_run, reason=reason
        )
        try:
            state_audit.append(self._root, change)
        except OSError as error:
            return change, error
        return change, None

    def _to_change(self, key: str) -> tuple[StoredWatermark, str]:
        self.known(key)
        stored = self.watermark(key)
        if stored is None:
            raise PzError(
                "PZ0515",
                f"{key} has a token of its connector stored, which no value can be written for",
                hint=f"pz state clear {key} --yes forgets it, and the next run begins anew",
            )
        kind = cursor_family(stored.type)
        if stored.cursor is None or kind is None:
            raise PzError(
                "PZ0515",
                f"what is stored under {key} is no watermark that a value can be written for: {stored.flaw}",
                hint=f"pz state clear {key} --yes forgets it, and the next run begins anew",
            )
        return stored, kind

    def _moved(self, action: Action, stored: StoredWatermark, kind: str, after: str, to_run: str | None) -> Planned:
        before = canonical_cursor(kind, stored.value or "")
        if before is not None and later(kind, after, before):
            consequence = f"later runs pass over rows above {before} up to {after}, for good"
        else:
            twice = "append outputs without a ledger then hold those rows twice"
            consequence = f"the next run reads rows above {after} again; {twice}"
        assert stored.cursor is not None and stored.type is not None  # looked at before
        payload = {"cursor": stored.cursor, "type": stored.type, "value": after, "runId": to_run or BY_HAND}
        writes = {WATERMARKS: stored.version}
        return Planned(action, stored.key, stored.value, after, consequence, writes, payload, to_run)


def _watermark(key: str, entry: StateEntry) -> StoredWatermark:
    cursor, kind, value = (_text(entry.payload.get(name)) for name in ("cursor", "type", "value"))
    flaw: str | None = None
    if cursor is None or kind is None or value is None:
        flaw = "cursor, type or value is missing"
    elif cursor_family(kind) is None:
        flaw = f"{kind} is no type of a cursor"
    else:
        canonical = canonical_cursor(kind, value)
        if canonical is None:
            flaw = f"the value is no {kind}"
        elif canonical != value:
            flaw = f"the value is not in canonical form ({canonical})"
    return StoredWatermark(key, cursor, kind, value, _text(entry.payload.get("runId")), entry.version, flaw)


def _recorded(run: RunSummary, key: str) -> Recorded | None:
    if run.record is None:
        return None
    name = _node_name(key)
    for node in run.record.nodes:
        if node.kind == "SourceLoad" and node.name == name:
            raw: Any = node.raw.get("watermark")
            found = raw if isinstance(raw, Mapping) else {}
            parts = (_text(found.get(part)) for part in ("cursor", "type", "value"))
            return Recorded(run.run_id, run.status, *parts)
    return None


def _node_name(key: str) -> str:
    """The name under which a run records a dataset. A connection has no dot in its name, an entity may have some."""
    connection, _, entity = key.partition(".")
    return staging_relation(connection, entity)


def _nothing_recorded(key: str, run_id: str, why: str) -> PzError:
    return PzError(
        "PZ0514",
        f"{key}: run {run_id} recorded nothing to go back to: {why}",
        hint=f"pz state show {key} lists what runs recorded",
    )


def _family(kind: str) -> str | None:
    found = cursor_family(kind)
    return "bigint" if found == "int" else found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

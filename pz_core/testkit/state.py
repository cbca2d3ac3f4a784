"""The suite for state backends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from pz_core.contract.state import StateBackend, StateEntry
from pz_core.errors import PzError
from pz_core.testkit.asking import caught
from pz_core.testkit.rules import NotApplicable, Suite, codes_of, require, rule
from pz_core.values import Value

SCOPE = "watermarks"
KEY = "shop.orders"
MARK: Mapping[str, Value] = {"cursor": "id", "type": "bigint", "value": "9007199254740993", "runId": "r-1"}

PAYLOADS: dict[str, Mapping[str, Value]] = {
    "empty": {},
    "numbers": {"big": 2**70, "beyond": 9007199254740993, "negative": -(2**63), "real": 0.1, "small": 5e-324},
    "texts": {"note": "ünï \u2028 \n\t\"quoted\" 'and' {x} \\ 日本 🙂 \u0001", "empty": "", "": "no name"},
    "nested": {"a": {"b": [1, [2.5, True, ""], {}]}, "list": [], "false": False},
    "look-alikes": {"a": "1", "b": "true", "c": "null", "d": "2026-01-01T00:00:00.000000"},
    "large": {"token": "x" * 1_000_000},
}
KEYS: tuple[str, ...] = (
    "a.b", "A.b", "a.B", "a b.c", "it's.x", 'quo"te.x', "semi;colon.x", "per%cent.x", "under_score.x", "star*.x",
    "../up.x", "/root.x", "back\\slash.x", "ünï.日本", "🙂.x", "line\nbreak.x", " lead.x", "trail.x ", "null.x",
    "k" * 300,
    "-- comment.x", "$a.$b", "{}.x", "a.b.c", ".",
)  # fmt: skip
SCOPES: tuple[str, ...] = ("../evil", "a/b", "", "Watermarks", "x.json", "a\n", "a b", "'; --")


class StateBackendSuite(Suite):
    """What every state backend owes: compare-and-set on keyed entries that survive everything.

    Subclass it in a test file and name the backend::

        class TestVault(StateBackendSuite):
            backend = VaultState

            def settings(self):
                return {"url": "http://127.0.0.1:8200"}
    """

    backend: ClassVar[type[Any] | None] = None
    """The class that the registration's target names."""

    secrets: ClassVar[tuple[str, ...]] = ()
    """Texts in :meth:`settings` that nobody may see."""

    def settings(self) -> Mapping[str, Value]:
        """Hook: what stands under ``state:`` besides the backend's name; an empty store, asked for once a rule."""
        return {}

    def unreachable(self) -> Mapping[str, Value] | None:
        """Hook: settings of a store that does not answer; ``None`` if there is none."""
        return None

    def files(self) -> Iterable[Path]:
        """Hook: the files that hold the state, below :attr:`project`; none for a store that is no file."""
        return ()

    # --- from here on: what rules use -----------------------------------------------------------------------------

    @classmethod
    def subject(cls) -> str | None:
        """The backend's name."""
        return None if cls.backend is None else str(getattr(cls.backend, "name", cls.backend.__name__))

    @property
    def project(self) -> Path:
        """The folder of the project."""
        made = self.folder / "project"
        made.mkdir(exist_ok=True)
        return made

    def opened(self, settings: Mapping[str, Value] | None = None) -> StateBackend:
        """An instance; all of one rule are of one store."""
        if "_settings" not in vars(self):
            self._settings = dict(self.settings())
            self._open: list[Any] = []
        made = cast(Any, self.backend)(self._settings if settings is None else settings, str(self.project))
        self._open.append(made)
        return cast(StateBackend, made)

    def finish(self) -> None:
        """Close what was opened."""
        for each in vars(self).get("_open", ()):
            caught(each.close)

    @rule("state")
    def nothing_is_stored_at_first(self) -> None:
        """A new store has no entries."""
        store = self.opened()
        require(store.read(SCOPE, KEY) is None, "read() found an entry")
        require(dict(store.entries(SCOPE)) == {}, "entries() found some")

    @rule("state", cases=tuple(PAYLOADS))
    def what_was_written_is_read_back(self, name: str) -> None:
        """A payload is read back unchanged, by another instance after the first was closed."""
        payload = PAYLOADS[name]
        store = self.opened()
        written = store.write(SCOPE, KEY, payload, None)
        _same(written.payload, payload, "write() returned")
        store.close()
        found = self._entry(self.opened())
        _same(found.payload, payload, "read() gave")
        require(found.version == written.version, f"version {found.version} is read, {written.version} was written")

    @rule("state")
    def keys_are_kept_apart(self) -> None:
        """Keys with any characters, of any case, are entries of their own, and come sorted."""
        store = self.opened()
        for number, key in enumerate(KEYS):
            store.write(SCOPE, key, {"value": number}, None)
        found = self.opened().entries(SCOPE)
        wrong = [k for n, k in enumerate(KEYS) if k not in found or found[k].payload != {"value": n}]
        require(not wrong, f"keys that are not there with their own value: {wrong}")
        require(list(found) == sorted(KEYS), "entries() is not sorted by key")
        for number, key in enumerate(KEYS):
            entry = store.read(SCOPE, key)
            require(entry is not None and entry.payload == {"value": number}, f"read() of key {key!r} gave {entry}")

    @rule("state")
    def scopes_are_kept_apart(self) -> None:
        """One key in two scopes is two entries."""
        store = self.opened()
        store.write(SCOPE, KEY, {"value": "1"}, None)
        store.write("sync-state", KEY, {"token": "2"}, None)
        require(self._entry(store).payload == {"value": "1"}, "another scope changed the entry")
        require(list(store.entries("schemas")) == [], "a scope that nobody wrote has entries")
        entry = store.read("sync-state", KEY)
        require(entry is not None and entry.payload == {"token": "2"}, f"the second scope has {entry}")

    @rule("state", cases=SCOPES)
    def a_scope_leads_nowhere_else(self, scope: str) -> None:
        """A scope that is no plain word is refused."""
        store = self.opened()
        for call in (lambda: store.write(scope, KEY, MARK, None), lambda: store.read(scope, KEY)):
            error = caught(call)
            require(
                isinstance(error, (ValueError, PzError)), f"scope {scope!r} was answered with {error!r}, not refused"
            )

    @rule("state")
    def only_the_stored_version_can_be_replaced(self) -> None:
        """A write with another version than the stored one is PZ0520 and changes nothing."""
        store = self.opened()
        first = store.write(SCOPE, KEY, {"value": "1"}, None)
        second = store.write(SCOPE, KEY, {"value": "2"}, first.version)
        require(second.version != first.version, "the version did not change with the payload")
        for what, key, expected in (
            ("an older version", KEY, first.version),
            ("no version, though the entry is there", KEY, None),
            ("a version, though there is no entry", "absent.x", first.version),
        ):
            self._refused(store, partial(store.write, SCOPE, key, {"value": "3"}, expected), what)
        require(self._entry(store).payload == {"value": "2"}, "a refused write changed the entry")
        require(store.read(SCOPE, "absent.x") is None, "a refused write made an entry")

    @rule("state")
    def only_the_stored_version_can_be_removed(self) -> None:
        """A removal needs the stored version, too, and leaves other entries alone."""
        store = self.opened()
        first = store.write(SCOPE, KEY, {"value": "1"}, None)
        second = store.write(SCOPE, KEY, {"value": "2"}, first.version)
        store.write(SCOPE, "other.x", MARK, None)
        self._refused(store, lambda: store.remove(SCOPE, KEY, first.version), "removing an older version")
        store.remove(SCOPE, KEY, second.version)
        require(list(self.opened().entries(SCOPE)) == ["other.x"], "other entries went too, or this one stayed")
        self._refused(store, lambda: store.remove(SCOPE, KEY, second.version), "removing what is gone")
        self._refused(store, lambda: store.write(SCOPE, KEY, MARK, second.version), "writing over what is gone")
        store.write(SCOPE, KEY, {"value": "again"}, None)
        require(self._entry(store).payload == {"value": "again"}, "an entry cannot be made again after its removal")

    @rule("state")
    def a_payload_without_a_json_form_changes_nothing(self) -> None:
        """NaN and other values without a JSON form are refused, and the old entry stays."""
        store = self.opened()
        first = store.write(SCOPE, KEY, {"value": "1"}, None)
        for payload in ({"value": float("nan")}, {"value": object()}):
            error = caught(store.write, SCOPE, KEY, payload, first.version)
            require(isinstance(error, (ValueError, PzError)), f"{payload} was answered with {error!r}")
        require(self._entry(self.opened()).payload == {"value": "1"}, "the old entry is gone")

    @rule("state")
    def writers_at_once_lose_no_update(self) -> None:
        """Several instances that count up one entry lose no step: who comes second is told, and tries again."""
        workers, steps, errors = 4, 8, []

        def count_up() -> None:
            store = self.opened()
            try:
                for _ in range(steps):
                    _step(store, KEY)
            except Exception as error:  # noqa: BLE001 - told below
                errors.append(error)

        self.opened()
        _at_once([count_up] * workers)
        require(not errors, f"a writer failed: {errors[:1]}")
        value = self._entry(self.opened()).payload["value"]
        require(value == workers * steps, f"{workers * steps} steps were counted as {value}")

    @rule("state")
    def of_first_writers_one_wins(self) -> None:
        """Of several instances that make one entry at once, one succeeds; the others get PZ0520."""
        won: list[int] = []
        errors: list[Exception] = []

        def make(number: int) -> None:
            try:
                self.opened().write(SCOPE, KEY, {"value": number}, None)
                won.append(number)
            except Exception as error:  # noqa: BLE001 - judged below
                errors.append(error)

        self.opened()
        _at_once([partial(make, n) for n in range(5)])
        foreign = [e for e in errors if "PZ0520" not in codes_of(e)]
        require(not foreign, f"a writer that came second got {foreign[:1]}")
        require(len(won) == 1, f"{len(won)} writers of one entry were told that they made it")
        require(self._entry(self.opened()).payload == {"value": won[0]}, "the stored entry is not the winner's")

    @rule("state")
    def writers_of_different_keys_do_not_meet(self) -> None:
        """Instances that write different keys at once all succeed."""
        errors: list[Exception] = []

        def write(number: int) -> None:
            try:
                store = self.opened()
                for _ in range(4):
                    _step(store, f"k{number}.x")
            except Exception as error:  # noqa: BLE001 - told below
                errors.append(error)

        self.opened()
        _at_once([partial(write, n) for n in range(4)])
        require(not errors, f"a writer failed: {errors[:1]}")
        found = {k: e.payload["value"] for k, e in self.opened().entries(SCOPE).items()}
        require(found == {f"k{n}.x": 4 for n in range(4)}, f"stored is {found}")

    @rule("state")
    def a_killed_writer_leaves_old_or_new(self) -> None:
        """A process that is killed while it writes leaves whole entries, and the next writer succeeds."""
        if not hasattr(os, "fork"):
            raise NotApplicable("this system cannot fork")
        store = self.opened()
        store.write(SCOPE, KEY, {"value": 0, "pad": ""}, None)
        store.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _write_forever(self)
        time.sleep(0.15)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        after = self.opened()
        entry = self._entry(after)
        value = entry.payload["value"]
        require(entry.payload == {"value": value, "pad": "x" * (1000 * cast(int, value))}, "the entry is torn")
        after.write(SCOPE, KEY, MARK, entry.version)

    @rule("state", cases=("cut in half", "emptied", "overwritten"))
    def a_damaged_file_is_told(self, damage: str) -> None:
        """A file that was damaged is told by a code or counts as nothing stored, and is never half believed."""
        store = self.opened()
        for number in range(50):
            store.write(SCOPE, f"k{number:02}.x", {"value": "v" * 100}, None)
        store.close()
        files = [f for f in self.files() if f.is_file()]
        if not files:
            raise NotApplicable("the store is no file")
        for file in files:
            size = file.stat().st_size
            content = {
                "cut in half": file.read_bytes()[: size // 2],
                "emptied": b"",
                "overwritten": b"\x00no\xff" * 200,
            }
            file.write_bytes(content[damage])
        again = self.opened()
        try:
            found = again.entries(SCOPE)
        except PzError as error:
            require(error.hint, f"{error.code} says no way out")
            return
        bad = [k for k, e in found.items() if e.payload != {"value": "v" * 100}]
        require(not bad, f"entries are there with another payload: {bad[:3]}")
        entry = again.read(SCOPE, KEY)
        require(entry is None, "an entry is there that nobody wrote")
        again.write(SCOPE, KEY, MARK, None)
        require(self._entry(self.opened()).payload == MARK, "what was written afterwards is not read back")

    @rule("state")
    def a_store_out_of_reach_is_told(self) -> None:
        """A store that does not answer is PZ0518, PZ0531 or PZ0532, with a way out."""
        settings = self.unreachable()
        if settings is None:
            raise NotApplicable("the suite names no store that cannot be reached")
        error = caught(lambda: self.opened(settings).write(SCOPE, KEY, MARK, None))
        require(
            isinstance(error, PzError) and error.code in ("PZ0518", "PZ0531", "PZ0532"),
            f"it was answered with {error!r}",
        )
        require(cast(PzError, error).hint, "the error says no way out")
        self._unseen(str(error), "the error")

    @rule("state")
    def describe_shows_no_secret(self) -> None:
        """describe() is one line without a credential, and so is the instance's repr."""
        store = self.opened()
        told = store.describe()
        require(told and "\n" not in told, f"describe() gave {told!r}")
        self._unseen(told, "describe()")
        self._unseen(repr(store), "repr()")
        require(str(self.folder) not in told, "describe() shows a path of this machine")

    @rule("state")
    def closing_twice_is_no_fault(self) -> None:
        """close() may come twice, and what was stored stays."""
        store = self.opened()
        store.write(SCOPE, KEY, MARK, None)
        store.close()
        store.close()
        require(self._entry(self.opened()).payload == MARK, "the entry is gone")

    def _entry(self, store: StateBackend) -> StateEntry:
        found = store.read(SCOPE, KEY)
        require(found is not None, "the entry is not there")
        return cast(StateEntry, found)

    def _refused(self, store: StateBackend, call: Any, what: str) -> None:
        error = caught(call)
        require(error is not None and "PZ0520" in codes_of(error), f"{what} was answered with {error!r}, not PZ0520")
        require(cast(PzError, error).hint, "PZ0520 says no way out")

    def _unseen(self, text: str, what: str) -> None:
        for secret in self.secrets:
            require(secret not in text, f"{what} shows a secret")


def _same(found: Any, wanted: Mapping[str, Value], what: str) -> None:
    spelled = json.dumps(found, sort_keys=True), json.dumps(wanted, sort_keys=True)
    require(spelled[0] == spelled[1], f"{what} {spelled[0][:200]} instead of {spelled[1][:200]}")


def _step(store: StateBackend, key: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        now = store.read(SCOPE, key)
        value = 0 if now is None else int(str(now.payload["value"]))
        try:
            store.write(SCOPE, key, {"value": value + 1}, None if now is None else now.version)
            return
        except PzError as error:
            if error.code != "PZ0520":
                raise
    raise TimeoutError("no step succeeded within 30 seconds")


def _at_once(jobs: Sequence[Any]) -> None:
    barrier = threading.Barrier(len(jobs))

    def run(job: Any) -> None:
        barrier.wait()
        job()

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _write_forever(suite: StateBackendSuite) -> None:
    """In a process of its own, until it is killed; it never returns."""
    try:
        store = suite.opened()
        now = store.read(SCOPE, KEY)
        version = "" if now is None else now.version
        for number in range(1, 100_000):
            payload: dict[str, Value] = {"value": number % 500, "pad": "x" * (1000 * (number % 500))}
            version = store.write(SCOPE, KEY, payload, version).version
        time.sleep(60)
    finally:
        os._exit(0)

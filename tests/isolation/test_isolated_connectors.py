"""A connector in a process of its own: the same contract, and whatever happens there stays there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pz_core.contract import (
    ConnectionConfig,
    ConnectorError,
    Interruptible,
    Partition,
    PlacingConnector,
    ReadSpec,
    Receipt,
    ResolvingSource,
    Secret,
    SqlWriteSession,
    WriteSpec,
)
from pz_core.errors import PzError
from pz_core.plugins.isolation import process, proxy
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.registry import Registry
from pz_core.values import Column

from .conftest import PACKAGE

SECRET = "correct-horse-battery"
COLUMNS = (Column("n", "BIGINT"), Column("lib", "VARCHAR"))


@pytest.fixture
def connect(registry: Registry, tmp_path: Path) -> Callable[..., Any]:
    def made(**options: Any) -> Any:
        given = {"folder": ".", "password": Secret(SECRET), **options}
        return registry.load("connector", "wild")(ConnectionConfig("w", "wild", given, str(tmp_path)))

    return made


def rows_of(source: Any, entity: str, **options: Any) -> int:
    batches = source.read(ReadSpec(entity, options), Partition(), 1000)
    return sum(batch.num_rows for batch in batches)


def gone(pid: int, seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.02)
    return False


def appeared(path: Path, seconds: float = 30.0) -> str:
    """The text of a file that a child writes, once it is there."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.01)
    raise TimeoutError(path)


# --- the contract ----------------------------------------------------------------------------------------------------


def test_the_declaration_is_the_connectors_own(registry: Registry) -> None:
    assert registry.names("connector") == ("wild",)
    target = registry.load("connector", "wild")
    assert target.capabilities.flags() == ("native_read", "reads", "universal_read", "universal_write")
    assert target.capabilities.load_modes == frozenset({"add", "swap"})
    secret = target.connection_options.get("password")
    assert secret is not None
    assert secret.secret
    assert registry.registration("connector", "wild").summary == "misbehaves"
    assert not hasattr(target, "write_place")
    assert "wild" not in sys.modules


def test_rows_cross_both_ways(connect: Callable[..., Any], tmp_path: Path) -> None:
    made = connect()
    assert not isinstance(made, PlacingConnector)
    assert list(made.validate()) == []
    source = made.open_source()
    assert isinstance(source, Interruptible)
    assert not isinstance(source, ResolvingSource)
    assert source.schema(ReadSpec("rows")) == COLUMNS
    assert source.partitions(ReadSpec("split"))[1].payload == {"from": 5}
    batches = list(source.read(ReadSpec("rows", {"rows": 2500}), Partition(), 1000))
    assert [batch.num_rows for batch in batches] == [1000, 1000, 500]
    assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(2500))
    empty = list(source.read(ReadSpec("rows", {"rows": 0}), Partition(), 1000))
    assert [batch.schema.names for batch in empty] == [["n", "lib"]]
    source.close()
    sink = made.open_sink()
    session = sink.begin(WriteSpec("out"), COLUMNS)
    assert not isinstance(session, SqlWriteSession)
    for batch in batches:
        session.write(batch)
    assert session.commit() == Receipt(2500)
    sink.close()
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 2500


def test_exact_values_cross(connect: Callable[..., Any], tmp_path: Path) -> None:
    from decimal import Decimal

    values = {
        "d": pa.array([Decimal("12345678901234567890.000000001"), None], pa.decimal128(38, 9)),
        "w": pa.array(["\0", "\U0001f600 e\u0301"]).dictionary_encode(),
        "f": pa.array([float("nan"), -0.0]),
        "t": pa.array([1, 2], pa.timestamp("us", tz="UTC")),
        "l": pa.array([[1, None], []], pa.list_(pa.int64())),
    }
    batch = pa.record_batch(values)
    from pz_core.plugins.isolation.codec import batch_of, body_of

    back = batch_of(bytearray(body_of(batch)))
    assert back.schema.equals(batch.schema, check_metadata=True)
    assert back.to_pydict()["d"] == batch.to_pydict()["d"]
    assert back["w"].to_pylist() == batch["w"].to_pylist()
    assert str(back["f"].to_pylist()) == str(batch["f"].to_pylist())


def test_a_read_that_nobody_finishes_stops_ahead_of_its_consumer(connect: Callable[..., Any], tmp_path: Path) -> None:
    source = connect().open_source()
    batches = source.read(ReadSpec("endless", {"rows": 100}), Partition(), 10)
    assert next(batches).num_rows == 10
    appeared(tmp_path / "produced")
    time.sleep(0.1)
    assert int((tmp_path / "produced").read_text()) <= 10 * (process.AHEAD + 3)
    batches.close()
    source.close()


def test_faults_keep_their_code_and_what_may_pass(connect: Callable[..., Any]) -> None:
    (fault,) = connect(folder="bad").validate()
    assert (fault.code, fault.hint) == ("PZ0301", "take another")
    source = connect().open_source()
    with pytest.raises(ConnectorError) as busy:
        rows_of(source, "later_in_read")
    assert (busy.value.transient, busy.value.retry_after, busy.value.hint) == (True, 1.5, "wait")
    with pytest.raises(Exception, match=r"^$") as foreign:
        rows_of(source, "foreign_in_read")
    assert type(foreign.value).__name__ == "ValueError"
    with pytest.raises(Exception, match=r"^$") as left:
        rows_of(source, "sysexit_in_read")
    assert type(left.value).__name__ == "SystemExit"
    assert not isinstance(left.value, SystemExit)
    assert rows_of(source, "rows") == 3


def test_native_ways_are_taken_where_duckdb_needs_no_extension(connect: Callable[..., Any]) -> None:
    source = connect().open_source()
    assert source.native_scan(ReadSpec("native")).query.startswith("SELECT 7")
    assert source.native_scan(ReadSpec("extension")) is None
    with pytest.raises(ConnectorError) as broken:
        source.native_scan(ReadSpec("object"))
    assert broken.value.code == "PZ0357"


def test_a_connector_that_works_by_an_extension_alone_is_refused(
    environment: Callable[..., Environment],
) -> None:
    from .conftest import WILD

    text = WILD.read_text().replace("universal_read=True,", "")
    made = Registry([PACKAGE], isolated={PACKAGE: environment(text)}).load("connector", "wild")
    source = made(ConnectionConfig("w", "wild", {})).open_source()
    with pytest.raises(PzError) as refused:
        source.native_scan(ReadSpec("extension"))
    assert refused.value.code == "PZ0360"


# --- secrets and noise -----------------------------------------------------------------------------------------------


def test_secrets_cross_in_the_handshake_and_nowhere_else(
    connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WILD_PASSWORD", SECRET)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    made = connect()
    seen = json.loads(made.check().message)
    assert SECRET not in json.dumps(seen)
    assert "WILD_PASSWORD" not in seen["env"]
    assert seen["stdin"] == ""
    with pytest.raises(ConnectorError) as leaked:
        connect(folder="leak").validate()
    assert SECRET not in leaked.value.message
    assert "<password>" in leaked.value.message
    out, err = capfd.readouterr()
    assert "noise" not in out + err


def test_a_secret_does_not_cross_in_any_other_call(connect: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="Secret"):
        connect().validate_read(ReadSpec("x", {"password": Secret(SECRET)}))


# --- deaths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "told"), [("segv", "signal SIGSEGV"), ("exit", "exit code 3"), ("kill", "signal SIGKILL")]
)
def test_a_death_while_reading_is_told_and_the_next_read_has_a_new_process(
    connect: Callable[..., Any], what: str, told: str
) -> None:
    made = connect()
    source = made.open_source()
    with pytest.raises(ConnectorError) as died:
        rows_of(source, f"{what}_in_read")
    assert died.value.code == "PZ0358"
    assert told in died.value.message
    assert died.value.transient
    with pytest.raises(ConnectorError) as again:
        source.schema(ReadSpec("rows"))
    assert again.value.code == "PZ0358"
    assert rows_of(made.open_source(), "rows") == 3


def test_a_death_midway_loses_no_rows_silently(connect: Callable[..., Any]) -> None:
    with pytest.raises(ConnectorError, match="exit code 5"):
        rows_of(connect().open_source(), "half", rows=5000)


def test_a_death_in_a_commit_is_not_to_be_repeated(connect: Callable[..., Any]) -> None:
    sink = connect().open_sink()
    session = sink.begin(WriteSpec("kill_in_commit"), COLUMNS)
    with pytest.raises(ConnectorError) as died:
        session.commit()
    assert (died.value.code, died.value.transient) == ("PZ0358", False)


def test_garbage_on_the_protocol_is_told_as_such(connect: Callable[..., Any]) -> None:
    with pytest.raises(ConnectorError) as broken:
        rows_of(connect().open_source(), "junk_in_read")
    assert broken.value.code == "PZ0357"


def test_a_close_that_hangs_ends_the_process(connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "CLOSE_SECONDS", 0.2)
    made = connect(folder="stuck")
    source = made.open_source()
    with pytest.raises(ConnectorError) as hung:
        source.close()
    assert hung.value.code == "PZ0358"
    assert "close() did not come back" in hung.value.message


@pytest.mark.parametrize("what", ["hang", "clutch"])
def test_a_call_that_hangs_can_be_stopped(
    connect: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.1)
    sink = connect().open_sink()
    session = sink.begin(WriteSpec(f"{what}_in_write"), COLUMNS)
    batch = pa.record_batch({"n": pa.array([1]), "lib": pa.array(["x"])})
    pids: list[int] = []

    def stop() -> None:
        pids.append(int(appeared(tmp_path / "pid")))
        sink.interrupt()

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(ConnectorError) as stopped:
        session.write(batch)
    assert stopped.value.code == "PZ0501"
    assert gone(pids[0])


def test_a_read_that_hangs_can_be_stopped_and_hurts_no_other_read(connect: Callable[..., Any], tmp_path: Path) -> None:
    made = connect()
    hung, other = made.open_source(), made.open_source()
    threading.Thread(target=lambda: (appeared(tmp_path / "pid"), hung.interrupt()), daemon=True).start()
    with pytest.raises(ConnectorError) as stopped:
        rows_of(hung, "hang_in_read")
    assert stopped.value.code == "PZ0501"
    assert rows_of(other, "rows") == 3
    hung.close()
    assert rows_of(other, "rows") == 3


def test_no_child_is_left_when_its_parent_is_killed(environment: Callable[..., Environment], tmp_path: Path) -> None:
    made = environment()
    code = f"""
import sys, threading
from pathlib import Path
from pz_core.contract import ConnectionConfig, Partition, ReadSpec
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.isolation.proxy import IsolatedPackage
target = IsolatedPackage(Environment({PACKAGE!r}, Path({str(made.folder)!r}))).target("wild")
source = target(ConnectionConfig("w", "wild", {{}}, {str(tmp_path)!r})).open_source()
next(source.read(ReadSpec("clutch_in_read"), Partition(), 10))
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid = int(appeared(tmp_path / "pid"))
    time.sleep(0.1)  # until it holds on to the interpreter
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert gone(pid)


def test_children_end_with_the_registry_that_started_them(registry: Registry) -> None:
    import gc

    child = registry.load("connector", "wild")._package.child()
    pid = child._process.pid
    del child
    registry._packages.clear()
    registry._targets.clear()
    gc.collect()
    assert gone(pid)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_an_environment_that_was_not_made_is_told(tmp_path: Path) -> None:
    made = Registry([PACKAGE], isolated={PACKAGE: Environment.of(tmp_path, PACKAGE)})
    assert made.names("connector") == ()
    with pytest.raises(PzError) as missing:
        made.load("connector", "wild")
    assert missing.value.code == "PZ0354"
    assert missing.value.hint == "run pz deps sync --isolated"


def test_a_process_that_cannot_start_is_told(environment: Callable[..., Environment]) -> None:
    made = environment()
    made.python.unlink()
    made.python.write_text("no program")
    made.python.chmod(0o755)
    with pytest.raises(PzError) as refused:
        Registry([PACKAGE], isolated={PACKAGE: made}).load("connector", "wild")
    assert refused.value.code == "PZ0355"


def test_a_process_that_ends_at_once_is_told(environment: Callable[..., Environment]) -> None:
    made = environment()
    (made.site / "zz.pth").write_text("import os; os._exit(9)\n")
    with pytest.raises(PzError, match="exit code 9") as refused:
        Registry([PACKAGE], isolated={PACKAGE: made}).load("connector", "wild")
    assert refused.value.code == "PZ0356"


def test_other_kinds_cannot_be_isolated(environment: Callable[..., Environment]) -> None:
    made = environment(points="connector.wild = wild\nstrategy.odd = wild")
    registry = Registry([PACKAGE], isolated={PACKAGE: made})
    assert registry.load("connector", "wild").capabilities.reads
    with pytest.raises(PzError) as refused:
        registry.load("strategy", "odd")
    assert refused.value.code == "PZ0360"
    faults = {row.name: row.fault and row.fault.code for row in registry.describe() if row.distribution == PACKAGE}
    assert faults == {"wild": None, "odd": "PZ0360"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise OSError('boom')", "PZ0701"),
        ("import os; os._exit(1)", "PZ0358"),
        ("from pz_core import hookimpl\n@hookimpl\ndef pz_conectors(): return []\n", "PZ0705"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_told_as_it_would_be_inside(
    environment: Callable[..., Environment], text: str, code: str
) -> None:
    with pytest.raises(PzError) as refused:
        Registry([PACKAGE], isolated={PACKAGE: environment(text)}).load("connector", "wild")
    assert refused.value.code == code


def test_on_a_platform_without_descriptors_to_hand_on_it_is_refused(
    environment: Callable[..., Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = environment()
    monkeypatch.setattr(process.sys, "platform", "win32")
    with pytest.raises(PzError) as refused:
        process._started(made)
    assert refused.value.code == "PZ0307"

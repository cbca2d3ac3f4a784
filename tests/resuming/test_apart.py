"""Tokens and confirmed rows of a connector that runs in a process of its own: the engine sees the same abilities."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pz_core.contract import CheckpointingSession, ConnectionConfig, FeedSource, Partition, ReadSpec, WriteSpec
from pz_core.contract.connector import ConnectorError
from pz_core.packages.uv import find_uv
from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.registry import Registry
from pz_core.values import Column

PACKAGE = "pz-connector-tide"
MODULE = """
from pz_core import hookimpl
from pz_core.contract import Capabilities, Partition, Receipt, Registration, TokenRefused, option_set

class Source:
    def natural_shape(self, spec):
        return "feed"
    def partitions(self, spec):
        return (Partition(),)
    def read(self, spec, partition, batch_rows):
        import pyarrow as pa
        if spec.token == "old":
            raise TokenRefused(spec.entity, "it is too old")
        self.end = 3
        yield pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
    def next_token(self, spec, partition):
        return f"{spec.token}/\\u00fc{self.end}"
    def close(self):
        pass

class Session:
    start = rows = 0
    def resume(self, rows):
        self.start = rows
        return True
    def acknowledged(self):
        return self.start + self.rows
    def write(self, batch):
        self.rows += batch.num_rows
    def commit(self):
        return Receipt(self.rows)
    def abort(self):
        pass

class Sink:
    def begin(self, spec, columns):
        return Session()
    def abort_semantics(self):
        return "best_effort"
    def close(self):
        pass

class Tide:
    name = "tide"
    connection_options = read_options = write_options = option_set()
    capabilities = Capabilities(reads=True, universal_read=True, universal_write=True, sync_state=True,
                                checkpointable_writes=True)
    def __init__(self, connection):
        pass
    def validate(self):
        return ()
    def open_source(self):
        return Source()
    def open_sink(self):
        return Sink()

@hookimpl
def pz_connectors():
    return [Registration("tide", "tide:Tide", "comes and goes", ">=1.0,<2")]
"""


@pytest.fixture
def connector(tmp_path):
    made = Environment.of(tmp_path, PACKAGE)
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(made.folder)], check=True)
    inside = made.site / "pz_connector_tide-1.0.dist-info"
    inside.mkdir()
    (inside / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (inside / "entry_points.txt").write_text("[pz]\nconnector.tide = tide\n")
    (made.site / "tide.py").write_text(MODULE)
    target = Registry([PACKAGE], isolated={PACKAGE: made}).load("connector", "tide")
    assert target.capabilities.checkpointable_writes
    return target(ConnectionConfig("t", "tide", {}, str(tmp_path)))


def test_a_feed_and_a_confirming_session_cross_the_process(connector):
    import pyarrow as pa

    source = connector.open_source()
    spec = ReadSpec("e", token="t\u0000")
    assert isinstance(source, FeedSource) and source.natural_shape(spec) == "feed"
    assert sum(batch.num_rows for batch in source.read(spec, Partition(), 10)) == 3
    assert source.next_token(spec, Partition()) == "t\u0000/\u00fc3"
    with pytest.raises(ConnectorError) as refused:
        list(source.read(ReadSpec("e", token="old"), Partition(), 10))
    assert (refused.value.code, refused.value.transient) == ("PZ0537", False)
    assert "--full-refresh" in (refused.value.hint or "")
    source.close()

    session = connector.open_sink().begin(WriteSpec("e"), (Column("n", "BIGINT"),))
    assert isinstance(session, CheckpointingSession) and session.resume(5)
    session.write(pa.record_batch({"n": pa.array([6, 7], pa.int64())}))
    assert session.acknowledged() == 7 and session.commit().rows == 2

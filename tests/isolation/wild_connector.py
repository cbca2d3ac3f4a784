"""A connector whose entities misbehave on purpose, installed as the module ``wild`` into environments of tests.

It is read as text and never imported here.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import wildlib  # a library whose version differs between environments

from pz_core import hookimpl
from pz_core.contract import (
    Capabilities,
    CheckReport,
    ConnectorError,
    NativeScan,
    Option,
    Partition,
    Receipt,
    Registration,
    Setup,
    option_set,
    reveal,
)
from pz_core.errors import PzError
from pz_core.values import Column

print("noise when it is imported")
sys.stdout.flush()


@hookimpl
def pz_connectors() -> list[Registration]:
    return [Registration("wild", "wild:Wild", "misbehaves", ">=1.0,<2")]


class Wild:
    name = "wild"
    connection_options = option_set(
        Option("folder", "string", "where rows are"), Option("password", "string", "a secret", secret=True)
    )
    read_options = option_set(Option("rows", "integer", "how many"))
    write_options = option_set()
    capabilities = Capabilities(
        reads=True,
        native_read=True,
        universal_read=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
    )

    def __init__(self, connection):
        self.connection = connection
        self.folder = Path(connection.base_dir) / str(connection.options.get("folder", "."))

    def validate(self):
        if self.folder.name == "bad":
            return [PzError("PZ0301", "folder is bad", hint="take another")]
        if self.folder.name == "leak":
            raise ConnectorError(f"cannot log in with {reveal(self.connection.options['password'])}")
        return []

    def validate_read(self, spec):
        return []

    def validate_write(self, spec):
        return []

    def check(self):
        sys.stdout.write("more noise\n")
        os.write(1, b"\x00\xff garbage on descriptor 1")
        seen = {"env": dict(os.environ), "argv": sys.argv, "lib": wildlib.VALUE, "stdin": sys.stdin.read()}
        return CheckReport(True, json.dumps(seen))

    def open_source(self):
        return Source(self)

    def open_sink(self):
        return Sink(self)


class Source:
    def __init__(self, connector):
        self.connector = connector

    def natural_shape(self, spec):
        return "full"

    def schema(self, spec):
        return (Column("n", "BIGINT"), Column("lib", "VARCHAR"))

    def native_scan(self, spec):
        if spec.entity == "native":
            return NativeScan("SELECT 7::BIGINT AS n, 'native' AS lib")
        if spec.entity == "extension":
            return NativeScan("SELECT 1", setup=(Setup("LOAD 'x'", "extension"),))
        if spec.entity == "object":
            return object()
        return None

    def partitions(self, spec):
        return (Partition(0, "a"), Partition(1, "b", {"from": 5})) if spec.entity == "split" else (Partition(),)

    def read(self, spec, partition, batch_rows):
        import pyarrow as pa

        misbehave(spec.entity, "read", self.connector.folder)
        count = int(spec.options.get("rows", 3))
        made = 0
        while made < count or made == 0:
            part = min(batch_rows, count - made)
            yield pa.record_batch(
                {
                    "n": pa.array(range(made, made + part), pa.int64()),
                    "lib": pa.array([wildlib.VALUE] * part, pa.string()),
                }
            )
            made += max(part, 1)
            if spec.entity == "endless":
                count += 10
                (self.connector.folder / "produced").write_text(str(made))
            if spec.entity == "half":
                os._exit(5)

    def close(self):
        if self.connector.folder.name == "stuck":
            time.sleep(60)


class Sink:
    def __init__(self, connector):
        self.connector = connector
        self.thread = threading.get_ident()

    def native_write(self, spec):
        return None

    def begin(self, spec, columns):
        return Session(self, spec)

    def abort_semantics(self):
        return "discards_all"

    def close(self):
        pass


class Session:
    def __init__(self, sink, spec):
        self.sink, self.spec, self.rows = sink, spec, []

    def write(self, batch):
        assert threading.get_ident() == self.sink.thread, "a sink is used from one thread"
        misbehave(self.spec.entity, "write", self.sink.connector.folder)
        self.rows += batch.to_pylist()

    def commit(self):
        misbehave(self.spec.entity, "commit", self.sink.connector.folder)
        text = "".join(json.dumps(row | {"sink": wildlib.VALUE}, default=str) + "\n" for row in self.rows)
        (self.sink.connector.folder / f"{self.spec.entity}.txt").write_text(text)
        return Receipt(len(self.rows))

    def abort(self):
        (self.sink.connector.folder / "aborted").write_text("yes")


def misbehave(entity, during, folder):
    what, _, when = entity.partition("_in_")
    if when != during:
        return
    (folder / "pid").write_text(str(os.getpid()))
    if what == "segv":
        ctypes.string_at(0)
    elif what == "exit":
        os._exit(3)
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "hang":
        time.sleep(60)
    elif what == "clutch":
        ctypes.PyDLL(None).sleep(60)  # a library that keeps the interpreter to itself
    elif what == "sysexit":
        sys.exit(4)
    elif what == "foreign":
        raise ValueError("a value of the data")
    elif what == "later":
        raise ConnectorError("too busy", transient=True, retry_after=1.5, hint="wait")
    elif what == "junk":
        for fd in range(3, 64):
            try:
                os.write(fd, b"\xff" * 64)
            except OSError:
                continue
        time.sleep(60)

from __future__ import annotations

from collections.abc import Callable

import pytest

from pz_core.project.model import RateLimit, ReadDeclaration, RetryConfig, WriteDeclaration

from .conftest import Folder

Write = Callable[[str], Folder]


def test_the_file_may_be_missing_or_empty(folder: Folder) -> None:
    assert folder.load().project.connections == {}
    assert folder.write({"connections.yml": "# nothing yet\n"}).load().project.connections == {}


def test_a_connection_is_read_whole(connections: Write) -> None:
    loaded = connections(
        "api:\n  connector: http\n  base: ${B}\n  headers: [{k: v}]\n  max_concurrency: 3\n"
        "  rate_limit: {requests_per_minute: 60, burst: 10}\n  retry: {max_attempts: 5, base_delay: 500ms}\n"
        "  entities:\n    public.orders:\n      read: {path: p, columns: {id: bigint}}\n      write:\n"
        "    bare:\n    empty: {}\n"
    ).load(B="x")
    made = loaded.project.connections["api"]
    assert (made.connector, made.config, made.max_concurrency) == ("http", {"base": "x", "headers": [{"k": "v"}]}, 3)
    assert made.rate_limit == RateLimit(60, 10)
    assert made.retry == RetryConfig(5, 500, None)
    orders = made.entities["public.orders"]
    assert orders.read is not None
    assert (orders.read.options, orders.read.columns, orders.read.where.line) == ({"path": "p"}, {"id": "bigint"}, 10)
    assert orders.write == WriteDeclaration(where=orders.write.where) if orders.write else False
    for name in ("bare", "empty"):
        assert (made.entities[name].read, made.entities[name].write) == (None, None)
    assert made.lines["base"] == 3


def test_keys_without_a_body_mean_the_defaults(connections: Write) -> None:
    made = (
        connections(
            "a:\n  connector: pg\n  max_concurrency:\n  rate_limit:\n  retry:\n  entities:\nb:\n"
            "  connector: pg\n  entities:\n    t:\n"
            "      read:\n        columns:\n        sync:\n        retry:\n      write:\n        strategy:\n"
            "        keys:\n        on_delete:\n"
        )
        .load()
        .project.connections
    )
    assert (made["a"].max_concurrency, made["a"].rate_limit, made["a"].retry, made["a"].entities) == (
        None,
        None,
        None,
        {},
    )
    entity = made["b"].entities["t"]
    assert entity.read == ReadDeclaration(where=entity.read.where) if entity.read else False
    assert entity.write == WriteDeclaration(where=entity.write.where) if entity.write else False


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("yard: text", "PZ0101 connections.yml:1"),
        ("yard:", "PZ0101 connections.yml:1"),
        ("yard: {root: in}", "PZ0101 connections.yml:1"),
        ("yard: {connector: }", "PZ0101 connections.yml:1"),
        ("yard: {connector: ' '}", "PZ0101 connections.yml:1"),
        ("yard: {connector: [x]}", "PZ0101 connections.yml:1"),
        ("my-yard: {connector: pg}", "PZ0136 connections.yml:1"),
        ("a__b: {connector: pg}", "PZ0136 connections.yml:1"),
        ("1a: {connector: pg}", "PZ0136 connections.yml:1"),
        ("a:\n  connector: pg\n  max_concurrency: 0", "PZ0122 connections.yml:3"),
        ("a:\n  connector: pg\n  max_concurrency: '2'", "PZ0122 connections.yml:3"),
        ("a:\n  connector: pg\n  rate_limit:\n    requests_per_minute: 5\n    per: hour", "PZ0318 connections.yml:5"),
        ("a:\n  connector: pg\n  rate_limit: 5", "PZ0318 connections.yml:3"),
        ("a:\n  connector: pg\n  rate_limit: {}", "PZ0318 connections.yml:3"),
        ("a:\n  connector: pg\n  rate_limit: {requests_per_minute: 1000001}", "PZ0318 connections.yml:3"),
        ("a:\n  connector: pg\n  rate_limit: {requests_per_minute: 1.5}", "PZ0318 connections.yml:3"),
        ("a:\n  connector: pg\n  retry: 3", "PZ0121 connections.yml:3"),
        ("a:\n  connector: pg\n  retry: {attempts: 3}", "PZ0121 connections.yml:3"),
        ("a:\n  connector: pg\n  retry:\n    base_delay: 10s\n    max_delay: 2s", "PZ0121 connections.yml:5"),
        ("a:\n  connector: pg\n  retry: {base_delay: 0s}", "PZ0121 connections.yml:3"),
        ("a:\n  connector: pg\n  retry: {max_attempts: true}", "PZ0121 connections.yml:3"),
        ("a:\n  connector: pg\n  entities: [x]", "PZ0101 connections.yml:3"),
        ("a:\n  connector: pg\n  entities:\n    t: text", "PZ0101 connections.yml:4"),
        ("a:\n  connector: pg\n  entities:\n    t:\n      reads: {}", "PZ0101 connections.yml:5"),
        ("a:\n  connector: pg\n  entities:\n    t:\n      read: text", "PZ0101 connections.yml:5"),
        ("a:\n  connector: pg\n  entities:\n    a..b:", "PZ0344 connections.yml:4"),
        ("a:\n  connector: pg\n  entities:\n    'a b':", "PZ0344 connections.yml:4"),
        ("a:\n  connector: pg\n  entities:\n    '':", "PZ0344 connections.yml:4"),
        ("a:\n  connector: pg\n  entities:\n    .a:", "PZ0344 connections.yml:4"),
    ],
)
def test_a_malformed_connection_is_refused_at_its_line(connections: Write, text: str, code: str) -> None:
    assert connections(text + "\n").faults() == [code]


def test_a_connection_written_as_an_address_is_not_shown(connections: Write) -> None:
    assert "hunter2" not in connections("crm: postgres://me:hunter2@host/db\n").lines()


def test_a_cursor_bound_keeps_its_spelling(connections: Write) -> None:
    made = (
        connections(
            "a: {connector: pg, entities: {t: {read: {columns: {n: decimal}, "
            "sync: {mode: incremental, cursor: n, max_window: 5, initial: 12.50, until: 0099}}}}}\n"
        )
        .load()
        .project.connections["a"]
        .entities["t"]
        .read
    )
    assert made is not None
    assert made.sync is not None
    assert (made.sync.max_window, made.sync.initial, made.sync.until) == ("5", "12.50", "0099")


def test_an_outputs_block_is_refused_with_the_block_to_paste(connections: Write) -> None:
    lines = connections(
        "outputs:\n  dev: {connector: localfiles, root: out}\n  mart.orders: {sink: lake, schema: dbo, "
        "mode: merge, keys: [id]}\n"
        "yard: {connector: pg}\n"
    ).lines()
    assert lines.startswith("error PZ0346: connections.yml holds a block outputs:")
    assert "(connections.yml:1)" in lines
    assert "dev: {connector: localfiles, root: out}" in lines
    assert "lake: {entities: {dbo.orders: {write: {keys: [id], strategy: merge}}}}" in lines
    assert lines.count("\n") == 0


def test_a_connection_may_be_called_outputs(connections: Write) -> None:
    assert list(connections("outputs: {connector: localfiles, root: out}\n").load().project.connections) == ["outputs"]


def test_a_file_of_a_retired_directory_is_refused_with_the_block_to_paste(folder: Folder) -> None:
    folder.write(
        {
            "sources/crm.yml": "source: crm_db\nconnector: postgres\nconnection: {host: '${H}', password: hunter2, dsn: 'x://u:hunter3@h'}\n"
            "datasets:\n  orders: {schema: dbo, columns: {id: bigint}, incremental: {cursor: ts}}\n",
            "sources/notes.txt": "x",
            "sinks/lake.yml": "connector: localfiles\nroot: out\noutputs:\n  cur: {mode: append, "
            "accept_duplicates: true, input: x}\n",
            "sinks/torn.yml": "a: [\n",
        }
    )
    assert folder.faults() == ["PZ0346 sinks/lake.yml", "PZ0346 sinks/torn.yml", "PZ0346 sources/crm.yml"]
    lines = folder.lines()
    assert 'crm_db: {connector: postgres, host: "${H}", password: "${CRM_DB_PASSWORD}"' in lines
    assert "entities: {dbo.orders: {read: {columns: {id: bigint}, sync: {mode: incremental, cursor: ts}}}}" in lines
    assert (
        "lake: {connector: localfiles, root: out, entities: {cur: {write: {strategy: append, duplicates: accept}}}}"
        in lines
    )
    assert "hunter" not in lines


def test_a_pasted_hint_loads(folder: Folder) -> None:
    folder.write(
        {
            "sources/old.yml": "connector: localfiles\nroot: 'a b: c'\nn: '05'\nt: \"x\\ny\"\n"
            "datasets:\n  t: {path: '*.csv', header: false}\n"
        }
    )
    (fault,) = folder.refusal()
    assert fault.hint is not None
    (folder.root / "sources/old.yml").unlink()
    made = (
        folder.write({"connections.yml": fault.hint.split("connections.yml: ", 1)[1]}).load().project.connections["old"]
    )
    assert made.config == {"root": "a b: c", "n": "05", "t": "x\ny"}
    read = made.entities["t"].read
    assert read is not None
    assert read.options == {"path": "*.csv", "header": False}

"""What loading accepts the schemas accept, and faults of shape are marked where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pz_core.contract.options import Option, option_set
from pz_core.errors import Problems, PzError
from pz_core.plugins.registry import Registry
from pz_core.project.connections_schema import connections_schema
from pz_core.project.json_schema import Plugins, project_schema, sidecar_schema
from pz_core.project.yaml import Items, Node, Text, parse_yaml

CASES = Path(__file__).resolve().parents[1] / "cases"


class Postgres:
    connection_options = option_set(
        Option("host", "string", "where", required=True),
        Option("port", "integer", "its port", default="5432", minimum=1, maximum=65535),
        Option("tls", "string", "how", choices=("require", "off"), default="require"),
        Option("fast", "boolean", "whether", default="false"),
        Option("password", "string", "the password", secret=True),
        Option("root", "string", "folder", default="the project"),
        Option("tags", "list", "words"),
    )
    read_options = option_set(Option("query", "string", "verbatim"), Option("partitions", "integer", "parts"))
    write_options = option_set(Option("batch", "integer", "rows"))


class Scd2:
    options = option_set(Option("sequence_by", "list", "order"), Option("delete_mode", "string", "how"))


class Some(Registry):
    """What is installed, and a database that is not; one connector cannot be imported."""

    things = {("connector", "postgres"): Postgres, ("strategy", "scd2"): Scd2, ("connector", "broken"): None}

    def names(self, kind: Any) -> tuple[str, ...]:
        return tuple(sorted({*super().names(kind), *(name for k, name in self.things if k == kind)}))

    def load(self, kind: Any, name: str) -> Any:
        if (kind, name) not in self.things:
            return super().load(kind, name)
        if self.things[kind, name] is None:
            raise PzError("PZ0701", f"{name} cannot be imported")
        return self.things[kind, name]


PLUGINS = Plugins(Some())
SCHEMAS = {
    "project": project_schema(PLUGINS),
    "connections": connections_schema(PLUGINS),
    "sidecar": sidecar_schema(PLUGINS),
}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def plain(node: Node) -> Any:
    """A file as an editor sees it: a key without a value is null."""
    if isinstance(node, Text):
        return None if node.blank else node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(entry.node) for key, entry in node.fields.items()}


def marked(kind: str, text: str) -> set[str]:
    """Paths of what a schema marks."""
    return paths(VALIDATORS[kind], text)


def paths(validator: Draft202012Validator, text: str, *, incomplete: bool = True) -> set[str]:
    problems = Problems()
    block = parse_yaml(text, "x.yml", problems)
    assert block is not None and not problems.any
    errors = [e for e in validator.iter_errors(plain(block)) if incomplete or e.validator not in ("required", "anyOf")]
    return {"/".join(map(str, error.absolute_path)) for error in errors}


def kind_of(file: str) -> str | None:
    if file.startswith("pipelines/configs/") and file.endswith(".yml"):
        return "sidecar"
    return {"project.yml": "project", "connections.yml": "connections"}.get(file)


def accepted_files() -> list[tuple[str, str, str]]:
    """Files of the black-box cases whose first command goes well: case, kind and text."""
    found = []
    for path in sorted(CASES.rglob("*.yml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        first = case["steps"][0]
        if "pz" not in first or first.get("exit", 0) != 0:
            continue
        for file, text in case["files"].items():
            kind = kind_of(file)
            if kind is not None and isinstance(text, str):
                found.append((path.stem, kind, text))
    return found


PROJECT, SIDECAR = "name: a\nversion: 1.0\n", "pipeline: a\n"
PG, X = "pg: {connector: postgres, host: h, ", "x: {connector: x, entities: {a: {"
PG_A, X_A = "pg/entities/a", "x/entities/a"


def test_the_schemas_are_sound() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert {fault.code for fault in PLUGINS.faults} == {"PZ0701"}


def test_what_compiles_in_the_cases_is_marked_nowhere() -> None:
    files = accepted_files()
    assert len(files) > 100
    plugins = Plugins(Registry())
    made = {"project": project_schema, "connections": connections_schema, "sidecar": sidecar_schema}
    installed = {kind: Draft202012Validator(make(plugins)) for kind, make in made.items()}
    # What a connection must have is asked for later than pz compile, but an editor may well ask for it at once.
    faults = {(case, kind): paths(installed[kind], text, incomplete=False) for case, kind, text in files}
    assert {key: paths for key, paths in faults.items() if paths} == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("project", PROJECT + "pz: '>=1.0 <2.0'\nenv:\nvars: {a: [1, {b: x}]}\nretention: Off\nstate:\n"),
        (
            "project",
            "name: a\nversion: 2\nstate: {artifacts: true, schema: x}\nretention: {keep_last: 1}\nplugins: []\n",
        ),
        ("project", PROJECT + "connectors:\n- {package: Pz.Connector.S3, version: 1.8.0, isolation: }\n"),
        ("project", PROJECT + "engine: {threads: , duckdb: {memory_limit: 8GB}, node_timeout: 030s}\n"),
        ("connections", PG + "port: '${PORT}', fast: '${FAST}', tls: 'x${TLS}', password: 12}\n"),
        ("connections", "x: {connector: not_installed, anything: [goes], entities: {a.b: }}\n"),
        ("connections", "x: {connector: broken, anything: goes, entities: {a: {read: {odd: 1}, write: {odd: 1}}}}\n"),
        ("connections", PG + "retry: , entities: {a: {read: {columns: , sync: }, write: }}}\n"),
        ("connections", PG + "entities: {a: {read: {columns: {x: 'decimal(10, 2)'}}}}}\n"),
        ("connections", PG + "entities: {a: {read: {sync: {mode: incremental, cursor: 7}}}}}\n"),
        ("connections", PG + "entities: {a: {write: {strategy: scd2, sequence_by: [t]}}}}\n"),
        (
            "sidecar",
            SIDECAR + "tags: [daily, 2026]\nmaterialization:\nchecks:\n- unique: {columns: [a], sample_values: }\n",
        ),
        (
            "sidecar",
            SIDECAR
            + "checks:\n- freshness: {columns: [t], max_age: 24h, sample_values: false}\n- row_count: {min: 1}\n",
        ),
    ],
)
def test_what_loading_accepts_is_not_marked(kind: str, text: str) -> None:
    assert marked(kind, text) == set()


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        ("project", PROJECT + "engin: {}\n", ""),
        ("project", "version: 1.0\n", ""),
        ("project", "name: [a]\nversion: 1.0\n", "name"),
        ("project", PROJECT + "engine: {thread: 4}\n", "engine"),
        ("project", PROJECT + "engine: {duckdb: {threads: 0}}\n", "engine/duckdb/threads"),
        ("project", PROJECT + "engine: {name: sparc}\n", "engine/name"),
        ("project", PROJECT + "engine: {breaker: {failure_threshold: 3}}\n", "engine/breaker"),
        ("project", PROJECT + "retention: {keep_last: 0}\n", "retention"),
        ("project", PROJECT + "retention: never\n", "retention"),
        ("project", PROJECT + "connectors: [{package: p, version: 1.5}]\n", "connectors/0/version"),
        ("project", PROJECT + "connectors: [p]\n", "connectors/0"),
        ("project", PROJECT + "plugins: [{package: p, isolation: process}]\n", "plugins/0"),
        ("project", PROJECT + "state: {backend: sqlite, url: x}\n", "state"),
        ("project", PROJECT + "state: {backend: http, url: x, artifacts: true}\n", "state/artifacts"),
        ("project", PROJECT + "state: {backend: sqlit}\n", "state/backend"),
        ("project", PROJECT + "on_source_drift: wran\n", "on_source_drift"),
        ("connections", "my-pg: {connector: x}\n", ""),
        ("connections", "a__b: {connector: x}\n", ""),
        ("connections", "pg: {host: h}\n", "pg"),
        ("connections", "pg: {connector: postgres, hots: h, host: h}\n", "pg"),
        ("connections", "pg: {connector: postgres}\n", "pg"),
        ("connections", PG + "port: 70000}\n", "pg/port"),
        ("connections", PG + "port: many}\n", "pg/port"),
        ("connections", PG + "tls: sometimes}\n", "pg/tls"),
        ("connections", PG + "max_concurrency: 0}\n", "pg/max_concurrency"),
        ("connections", PG + "retry: {max_delay: 0s}}\n", "pg/retry/max_delay"),
        ("connections", "x: {connector: x, entities: {'a b': }}\n", "x/entities"),
        ("connections", X + "reed: {}}}}\n", X_A),
        ("connections", X + "read: {schema: public}}}}\n", X_A + "/read"),
        ("connections", X + "write: {strategy: mrege}}}}\n", X_A + "/write/strategy"),
        ("connections", PG + "entities: {a: {read: {qeury: x}}}}\n", PG_A + "/read"),
        ("connections", PG + "entities: {a: {write: {sequence_by: [t]}}}}\n", PG_A + "/write"),
        ("connections", X + "read: {columns: {i: bigin}}}}}\n", X_A + "/read/columns/i"),
        ("connections", X + "read: {sync: {mode: auto, cursor: c}}}}}\n", X_A + "/read/sync"),
        ("sidecar", "pipelin: a\n", ""),
        ("sidecar", SIDECAR + "materialization: tabel\n", "materialization"),
        ("sidecar", SIDECAR + "checks:\n- not_nul: [id]\n", "checks/0"),
        ("sidecar", SIDECAR + "checks:\n- not_null: [id]\n  unique: [id]\n", "checks/0"),
        ("sidecar", SIDECAR + "checks:\n- freshness: {column: t, max_age: 1 day}\n", "checks/0/freshness/max_age"),
        ("sidecar", SIDECAR + "checks:\n- row_count: {min: one}\n", "checks/0/row_count/min"),
        ("sidecar", SIDECAR + "checks:\n- custom_sql: {name: Bad, sql: select 1}\n", "checks/0/custom_sql/name"),
        (
            "sidecar",
            SIDECAR + "checks:\n- accepted_values: {column: c, values: []}\n",
            "checks/0/accepted_values/values",
        ),
    ],
)
def test_a_fault_of_shape_is_marked_where_it_is(kind: str, text: str, path: str) -> None:
    assert path in marked(kind, text)


def test_a_default_in_words_is_described_and_not_offered() -> None:
    options: Any = SCHEMAS["connections"]["$defs"]["connection_postgres"]["properties"]
    assert options["root"]["description"] == "folder (default: the project)" and "default" not in options["root"]
    assert [options[name]["default"] for name in ("port", "fast", "tls")] == [5432, False, "require"]

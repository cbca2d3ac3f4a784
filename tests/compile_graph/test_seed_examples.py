"""Every block of SQL or YAML of the requirement compiles as it stands, given the connections that it leaves out.

Where a block shows a fragment (a sink() line, a WHERE), the test adds the least that makes a pipeline of it. Where the
rules want a word that a block leaves out, as consent to duplicates for an append below an incremental read, YAML gives
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pz_core.compile.artifacts import compiled_text
from pz_core.compile.dry import dry_compile
from pz_core.compile.graph import compile_project
from pz_core.compile.model import Graph, SinkNode, SourceNode
from pz_core.project import Loaded, load_project

PROJECT = "name: acme_warehouse_sync\nversion: 0.3.0\n"
CRM = "crm: {connector: postgres}\n"
LAKE = "lake: {connector: localfiles, root: out}\n"
MART = "mart:\n  connector: postgres\n  entities:\n    orders_curated:\n      write: {duplicates: accept}\n"
WAREHOUSE = "warehouse: {connector: postgres}\n"


STATE = {"PZ_STATE_CONNECTION_STRING": "Server=state.local"}


@dataclass(frozen=True)
class Example:
    """A block with its surroundings: files, what the environment holds, and the nodes that must come of it."""

    name: str
    files: dict[str, str]
    nodes: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)


PROJECT_FILE = """\
name: acme_warehouse_sync
version: 0.3.0
pz: ">=1.0 <2.0"                  # engine version constraint, checked at load

connectors:
  - package: Pz.Connector.Postgres   # NuGet package id
    version: 2.1.4                     # exact or range; lock file pins exactly
  - package: Pz.Connector.S3
    version: 1.8.0

vars:
  lookback_days: 30

engine:
  threads: 4                # max concurrent DAG nodes
  batch_bytes: 33554432     # universal-path batch target, bytes (default 32MB; 1MB..512MB)
  duckdb:
    memory_limit: 8GB
    threads: 8
    temp_directory: .pz/tmp

retention:
  keep_last: 10             # after each run, delete staging.duckdb from all but the newest 10 runs

state:
  backend: sqlserver        # local (default) | sqlserver -- see reference/project-yml.md
"""

CRM_FILE = """\
crm:
  connector: postgres                 # logical name resolved from installed connectors
  host: ${CRM_PG_HOST}              # env interpolation; never literal secrets
  database: crm
  user: ${CRM_PG_USER}
  password: ${CRM_PG_PASSWORD}
  entities:
    public.customers:                 # the dataset key IS the object name
      read:
        columns:                        # optional schema contract, enforced per policy
          id: bigint
          email: varchar
          updated_at: timestamp
    orders_active:                    # a query dataset: the key is just a label
      read:
        query: "select * from public.orders where status <> 'draft'"
"""

ENRICHED = """\
-- pipelines/orders_enriched.sql
INSERT INTO {{ sink('lake', 'orders_curated') }}
select
    o.id,
    o.amount,
    c.email
from {{ ref('stg_orders') }} as o
join {{ source('crm', 'customers') }} as c
  on c.id = o.customer_id
"""

SIDECAR = """\
pipeline: orders_enriched
materialization: table          # table | view | ephemeral
tags: [daily, crm]
checks:
  - not_null: [id, email]
  - unique: [id]
  - row_count: { min: 1 }
  - freshness: { column: updated_at, max_age: 24h }
  - accepted_values: { column: status, values: [pending, shipped, delivered] }
  - custom_sql:
      name: no_negative_totals
      sql: select * from staging.orders_enriched where total < 0
"""

TOTALS = """\
-- pipelines/order_totals.sql
INSERT INTO {{ sink('lake', 'order_totals', strategy: 'replace', format: 'csv', path: 'out/totals/') }}
select customer_id, sum(amount) as total
from {{ ref('stg_orders') }}
group by customer_id
"""

CURATED = """\
-- pipelines/orders_curated.sql
INSERT INTO {{ sink('mart', 'orders_curated') }}
select o.id, o.amount, o.updated_at
from {{ source('crm', 'orders') }} as o
where o.amount > 0
  and o.updated_at > {{ watermark('crm', 'orders') }}
"""

LOOKBACK = """\
INSERT INTO {{ sink('mart', 'orders_curated') }}
select o.id, o.amount, o.updated_at
from {{ source('crm', 'orders') }} as o
where o.updated_at >= {{ watermark('crm', 'orders') }} - interval 2 hour
"""

WINDOW = """\
INSERT INTO {{ sink('mart', 'orders_curated') }}
select id, amount, updated_at
from {{ source('crm', 'orders') }}
where updated_at >  coalesce({{ watermark('crm','orders') }}, TIMESTAMP '2026-01-01')
  and updated_at <= least(coalesce({{ watermark('crm','orders') }}, TIMESTAMP '2026-01-01') + interval 7 day,
                          TIMESTAMP '2026-06-01')
"""

ROOTED = """\
lake:
  connector: localfiles
  root: out          # relative to the project, or absolute
"""

CURATED_FILES = """\
INSERT INTO {{ sink('lake', 'orders_curated', format: 'parquet', strategy: 'replace') }}
"""

MERGE_AT_THE_CALL = """\
INSERT INTO {{ sink('warehouse', 'mart.orders_current', strategy: 'merge', keys: ['order_id']) }}
select 1 as order_id
"""

MERGE_IN_YAML = """\
warehouse:
  connector: postgres
  entities:
    mart.orders_current:
      write:
        strategy: merge
        keys: [order_id]
"""

READ_IN_YAML = """\
crm:
  connector: localfiles
  entities:
    customers:
      read:
        path: data/customers.csv
        format: csv
"""

FAN_OUT = """\
-- pipelines/stg_orders.sql
INSERT INTO [{{ sink('ok', 'ok', strategy: 'replace') }}, {{ sink('flaky', 'flaky', strategy: 'replace') }}]
select * from {{ source('crm', 'orders') }}
"""

STG = "select * from {{ source('crm', 'orders') }}\n"

EXAMPLES = (
    Example("project file", {"project.yml": PROJECT_FILE, "connections.yml": CRM}, (), STATE),
    Example(
        "root of a place",
        {
            "connections.yml": ROOTED,
            "pipelines/orders.sql": CURATED_FILES + "select 1 as id\n",
        },
        ("orders", "lake.orders_curated"),
    ),
    Example(
        "connection with entities",
        {
            "connections.yml": CRM_FILE,
            "pipelines/c.sql": "select id, email, updated_at from {{ source('crm', 'public.customers') }}\n",
            "pipelines/a.sql": "select * from {{ source('crm', 'orders_active') }}\n",
        },
        ("src_crm__orders_active", "src_crm__public_customers", "a", "c"),
        {"CRM_PG_HOST": "db", "CRM_PG_USER": "u", "CRM_PG_PASSWORD": "p"},
    ),
    Example(
        "bare entity",
        {
            "connections.yml": "crm:\n  connector: sqlserver\n  entities:\n    dbo.orders:\n",
            "pipelines/a.sql": "select * from {{ source('crm', 'dbo.orders') }}\n",
        },
        ("src_crm__dbo_orders", "a"),
    ),
    Example(
        "pipeline with a sidecar",
        {
            "connections.yml": CRM + LAKE,
            "pipelines/stg_orders.sql": STG,
            "pipelines/orders_enriched.sql": ENRICHED,
            "pipelines/configs/orders_enriched.yml": SIDECAR,
        },
        (
            "src_crm__customers",
            "src_crm__orders",
            "stg_orders",
            "orders_enriched",
            "check_orders_enriched_accepted_values_status",
            "check_orders_enriched_freshness_updated_at",
            "check_orders_enriched_no_negative_totals",
            "check_orders_enriched_not_null_id_email",
            "check_orders_enriched_row_count",
            "check_orders_enriched_unique_id",
            "lake.orders_curated",
        ),
    ),
    Example(
        "place without a word on writing",
        {"connections.yml": "lake:\n  connector: localfiles\n  # ...host, credentials, connector options -- flat\n"},
        (),
    ),
    Example(
        "write options at the call",
        {"connections.yml": WAREHOUSE, "pipelines/o.sql": MERGE_AT_THE_CALL},
        ("o", "warehouse.mart.orders_current"),
    ),
    Example(
        "write options in YAML",
        {
            "connections.yml": MERGE_IN_YAML,
            "pipelines/o.sql": "INSERT INTO {{ sink('warehouse', 'mart.orders_current') }}\nselect 1 as order_id\n",
        },
        ("o", "warehouse.mart.orders_current"),
    ),
    Example(
        "read options at the call",
        {
            "connections.yml": "crm: {connector: localfiles}\n",
            "pipelines/c.sql": "-- at the call site: the whole read is where the query that needs it is\n"
            "select id, email from {{ source('crm', 'customers', path: 'data/customers.csv', format: 'csv') }}\n",
        },
        ("src_crm__customers", "c"),
    ),
    Example(
        "read options in YAML",
        {
            "connections.yml": READ_IN_YAML,
            "pipelines/c.sql": "select id, email from {{ source('crm', 'customers') }}\n",
        },
        ("src_crm__customers", "c"),
    ),
    Example(
        "one output",
        {"connections.yml": CRM + LAKE, "pipelines/stg_orders.sql": STG, "pipelines/order_totals.sql": TOTALS},
        ("src_crm__orders", "stg_orders", "order_totals", "lake.order_totals"),
    ),
    Example(
        "several outputs",
        {
            "connections.yml": CRM + "ok: {connector: localfiles}\nflaky: {connector: localfiles}\n",
            "pipelines/stg_orders.sql": FAN_OUT,
        },
        ("src_crm__orders", "stg_orders", "flaky.flaky", "ok.ok"),
    ),
    *(
        Example(
            name,
            {"connections.yml": CRM + MART, "pipelines/orders_curated.sql": text},
            ("src_crm__orders", "orders_curated", "mart.orders_curated"),
        )
        for name, text in (
            ("incremental read", CURATED),
            ("lookback", LOOKBACK),
            (
                "a function on the value side",
                LOOKBACK.replace(
                    "{{ watermark('crm', 'orders') }} - interval 2 hour",
                    "date_trunc('day', {{ watermark('crm', 'orders') }})",
                ),
            ),
            ("window in SQL", WINDOW),
        )
    ),
)


def loaded(example: Example, root: Path) -> Loaded:
    for name, text in {"project.yml": PROJECT, **example.files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load_project(root, environ=example.environ)


def compiled(name: str, root: Path) -> Graph:
    example = next(e for e in EXAMPLES if e.name == name)
    return compile_project(loaded(example, root), environ=example.environ)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name.replace(" ", "-"))
def test_it_compiles_as_it_stands(example: Example, tmp_path: Path) -> None:
    graph = compile_project(loaded(example, tmp_path), environ=example.environ)
    assert tuple(node.name for node in graph.nodes) == example.nodes
    assert not [n for n in graph.notices if n.severity != "note" and n.code != "PZ0223"]
    dry_compile(graph)


def test_the_project_file_says_what_it_says(tmp_path: Path) -> None:
    project = loaded(EXAMPLES[0], tmp_path).project
    assert [(p.name, p.specifier) for p in project.connectors] == [
        ("pz-connector-postgres", "==2.1.4"),
        ("pz-connector-s3", "==1.8.0"),
    ]
    engine = project.engine
    assert (engine.threads, engine.batch_bytes, engine.memory_limit, engine.duckdb_threads, engine.temp_directory) == (
        4,
        33_554_432,
        "8GB",
        8,
        ".pz/tmp",
    )
    assert (project.vars, project.retention, project.state.backend) == ({"lookback_days": 30}, 10, "sqlserver")


def test_options_at_the_call_and_in_yaml_are_one_declaration(tmp_path: Path) -> None:
    for kind in ("write", "read"):
        call = compiled(f"{kind} options at the call", tmp_path / f"{kind}-call")
        yaml = compiled(f"{kind} options in YAML", tmp_path / f"{kind}-yaml")
        wanted = SinkNode if kind == "write" else SourceNode
        assert [n.id for n in call.nodes if isinstance(n, wanted)] == [
            n.id for n in yaml.nodes if isinstance(n, wanted)
        ]


def test_headers_record_what_was_taken_off(tmp_path: Path) -> None:
    totals = compiled("one output", tmp_path / "a").named("order_totals")
    assert compiled_text(totals).splitlines()[0] == "-- output: lake.order_totals (csv, replace)"
    curated = compiled_text(compiled("incremental read", tmp_path / "b").named("orders_curated"))
    assert curated.startswith("-- incremental: crm.orders (cursor updated_at, declared in SQL)\n-- output: mart.orders")
    assert "INSERT" not in curated and "{{" not in curated


def test_the_window_in_sql_has_its_floor_and_its_ceiling(tmp_path: Path) -> None:
    source = compiled("window in SQL", tmp_path).named("src_crm__orders")
    assert isinstance(source, SourceNode) and source.incremental is not None
    assert source.incremental.cursor == "updated_at"
    assert [b.op for b in source.incremental.bounds] == [">", "<="]
    assert "least(" in source.incremental.bounds[1].expression

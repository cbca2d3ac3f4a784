"""One job done by dlt, told by a JSON file. Runs in the environment of the peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dlt
from dlt.sources.filesystem import filesystem, read_csv_duckdb, read_parquet
from dlt.sources.sql_database import sql_table

CHUNK = 100_000


def source(told: dict[str, Any], kind: str) -> Any:
    if kind == "pg":
        return sql_table(told["pg"], table="rows", schema="public", backend=told["backend"], chunk_size=CHUNK)
    if kind == "s3":
        return filesystem("s3://bench/in", credentials=keys(told), file_glob="rows.parquet") | read_parquet(CHUNK)
    name = {"csv": "rows.csv", "batch": "batch.csv"}[kind]
    return filesystem(f"file://{told['root']}/in", file_glob=name) | read_csv_duckdb(CHUNK, use_pyarrow=True)


def target(told: dict[str, Any], kind: str) -> Any:
    if kind == "pg":
        return dlt.destinations.postgres(told["pg"])
    if kind == "s3":
        return dlt.destinations.filesystem("s3://bench/dlt", credentials=keys(told))
    return dlt.destinations.filesystem(f"file://{told['root']}/dlt")


def keys(told: dict[str, Any]) -> dict[str, str]:
    return {
        "aws_access_key_id": told["key"], "aws_secret_access_key": told["secret"],
        "endpoint_url": told["endpoint"], "region_name": "us-east-1",
    }  # fmt: skip


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    of, to, how = told["job"]
    pipeline = dlt.pipeline(
        "bench", pipelines_dir=f"{told['root']}/.dlt", destination=target(told, to),
        dataset_name="public" if how == "merge" else "peer",
    )  # fmt: skip
    merging = {"primary_key": "id"} if how == "merge" else {}
    resource = source(told, of).with_name("made")
    resource.apply_hints(table_name="made", **merging)
    done = pipeline.run(resource, write_disposition=how, loader_file_format="parquet")
    done.raise_on_failed_jobs()


if __name__ == "__main__":
    main()

"""`make demo-shop`: start PostgreSQL and an S3 server, fill the shop, run the project twice, say what came of it.

    python demo.py           everything is stopped at the end
    python demo.py --keep    the servers stay until Ctrl-C, to look around

The servers are those of the repository's tests: real ones, from packages that pip installs, on free ports.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUCKET = "shop-lake"
SERVERS = Path(os.environ.get("PZ_TEST_SERVERS", HERE.parents[1] / "tests"))

TABLES = """
create table customers (id bigint primary key, name text not null, country text not null);
create table orders (
    id bigint primary key, customer_id bigint not null references customers, status text not null,
    amount numeric(10, 2) not null, ordered_at timestamp not null, updated_at timestamp not null
);
insert into customers
select i, 'Customer ' || i, (array['Österreich', 'France', '日本', 'Kenya'])[1 + i % 4] from generate_series(1, 2000) i;
insert into orders
select i, 1 + i * 7919 % 2000, (array['placed', 'paid', 'shipped', 'cancelled'])[1 + i * 31 % 4],
       (500 + i * 7919 % 19997) / 100.0, at, at
from generate_series(1, 50000) i, lateral (select timestamp '2026-01-01' + i * interval '2 minutes' as at) t;
"""
#: What happens between the two runs: some orders are cancelled, some are new.
CHANGES = """
update orders set status = 'cancelled', updated_at = timestamp '2026-03-12' + id * interval '1 second'
where id % 50 = 0 and status <> 'cancelled';
insert into orders
select i, 1 + i * 7919 % 2000, 'placed', (500 + i * 7919 % 19997) / 100.0, at, at
from generate_series(50001, 51000) i, lateral (select timestamp '2026-03-13' + i * interval '1 second' as at) t;
"""
#: The same figures from the shop itself: what the mart must say.
TRUTH = """
select count(*)::text, sum(amount) filter (where status <> 'cancelled')::text,
       count(*) filter (where status = 'cancelled')::text from {table}
"""
MART = "select sum(orders + cancelled)::text, sum(revenue)::text, sum(cancelled)::text from mart.daily_revenue"


def pz(env: dict[str, str], *arguments: str) -> int:
    command = shutil.which("pz", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if command is None:
        print(
            "pz is not installed beside this Python: run `make demo-shop` from the repository's root", file=sys.stderr
        )
        return 3
    print(f"\n$ pz {' '.join(arguments)}", flush=True)
    return subprocess.run([command, *arguments], cwd=HERE, env=env, check=False).returncode


def agree(database, when: str) -> bool:
    """Whether shop and mart say the same, told in a line each."""
    rows = {
        "the shop": database.run(TRUTH.format(table="orders"))[0],
        "mart.orders": database.run(TRUTH.format(table="mart.orders"))[0],
        "mart.daily_revenue, by way of the lake": database.run(MART)[0],
    }
    print(f"\n{when + ':':<42} {'orders':>6} {'revenue':>11} {'cancelled':>10}")
    for name, (orders, revenue, cancelled) in rows.items():
        print(f"  {name:<40} {orders:>6} {revenue:>11} {cancelled:>10}")
    return len(set(rows.values())) == 1


def demo(database, store, keep: bool) -> int:
    env = {
        **os.environ,
        "SHOP_PG_HOST": database.host, "SHOP_PG_PORT": str(database.port), "SHOP_PG_DATABASE": database.database,
        "SHOP_PG_USER": database.user, "SHOP_PG_PASSWORD": database.password,
        "SHOP_S3_ENDPOINT": store.endpoint, "SHOP_S3_BUCKET": BUCKET,
        "SHOP_S3_KEY": store.key, "SHOP_S3_SECRET": store.secret,
    }  # fmt: skip
    shutil.rmtree(HERE / ".pz", ignore_errors=True)  # the servers are new, so what was loaded before is nowhere
    database.run(TABLES)
    store.client().create_bucket(Bucket=BUCKET)
    for step in (("validate", "--connect"), ("plan",)):
        if pz(env, *step):
            return 1
    for when in ("After the first run", "After orders were cancelled and added"):
        if when != "After the first run":
            database.run(CHANGES)
        for pipelines in (("new_orders", "orders_lake", "orders_mart"), ("daily_revenue",)):
            if pz(env, "run", *pipelines):
                return 1
        if not agree(database, when):
            print("shop and mart disagree", file=sys.stderr)
            return 1
    versions = [key for key in store.listing() if key.startswith("orders/")]
    print(
        f"""
Where to look:
  s3://{BUCKET}/orders/    {len(versions)} objects: each run added the versions that were new to it
  s3://{BUCKET}/daily_revenue/daily_revenue.csv
  mart.orders, mart.daily_revenue in the database
  {os.path.relpath(HERE / ".pz" / "runs")}    a folder a run, with results and counts
The project itself: {os.path.relpath(HERE)}/pipelines, one .sql file a pipeline."""
    )
    if keep:
        print(
            f"\n  {database.url}\n  {store.url}  key {store.key}  secret {store.secret}\nCtrl-C stops both.", flush=True
        )
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            print()
    return 0


def main() -> int:
    sys.path.insert(0, str(SERVERS))
    try:
        from servers import Unavailable
        from servers.postgres import start_postgres
        from servers.s3 import start_s3
    except ImportError as error:
        print(f"the demo needs the repository it comes from, set up by `make demo-shop` ({error})", file=sys.stderr)
        return 3
    from dataclasses import replace

    print("starting PostgreSQL and an S3 server …", flush=True)
    stops = []
    try:
        database = start_postgres()
        stops.append(database.stop)
        store = start_s3()
        stops.append(store.stop)
        return demo(database.address, replace(store.store, bucket=BUCKET), "--keep" in sys.argv[1:])
    except Unavailable as error:
        print(f"a server cannot be started here: {error}", file=sys.stderr)
        return 3
    finally:
        for stop in reversed(stops):
            stop()


if __name__ == "__main__":
    raise SystemExit(main())

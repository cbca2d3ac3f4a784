"""Projects whose state and runs are in PostgreSQL, as several machines see them."""

from __future__ import annotations

import json
import signal
import time
import uuid
from pathlib import Path

import pytest

from pz_core.testkit.project import ProjectTester
from pz_core.testkit.proxy import DroppingProxy

ORDERS = "id,ts,amount\n" + "".join(f"{n},2026-01-01T00:00:{n:02},{n * 10}\n" for n in range(1, 4))
READ = (
    "SELECT * FROM {{ source('files', 'orders', path: 'orders.csv', "
    "columns: {id: 'bigint', ts: 'timestamp', amount: 'bigint'}, sync: {mode: 'incremental', cursor: 'id'}) }}"
)


class Machines:
    """Folders of one project on several machines, with one store."""

    def __init__(self, base: Path, server) -> None:
        self.base, self.server = base, server
        self.schema = f"s_{uuid.uuid4().hex[:8]}"

    def machine(self, name: str, *, port: int | None = None, **more) -> ProjectTester:
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        made = ProjectTester(folder, env={"PG_PASSWORD": self.server.password})
        options = {**self.server.options(), "password": "${PG_PASSWORD}", "connect_timeout_seconds": 3}
        if port is not None:
            options |= {"port": port, "ssl_mode": "disable"}
        state = {"backend": "postgres", "connection": "warehouse", "schema": self.schema, **more.pop("state", {})}
        made.write(
            {
                "project.yml": {"name": "shared", "state": state, **more},
                "connections.yml": {
                    "warehouse": {"connector": "postgres", **options},
                    "files": {"connector": "localfiles", "root": "in"},
                    "lake": {"connector": "localfiles", "root": "out"},
                },
                "in/orders.csv": ORDERS,
                "pipelines/orders.sql": f"INSERT INTO {{{{ sink('lake', 'orders', strategy: 'append', "
                f"duplicates: 'accept', format: 'csv') }}}}\n{READ}\n",
            }
        )
        return made

    def ask(self, sql: str, *params: object) -> list[tuple]:
        return self.server.run(sql.replace("{s}", self.schema), *params)

    def until(self, sql: str) -> None:
        """Until a condition holds."""
        end = time.monotonic() + 60
        while self.ask(sql) != [(True,)]:
            assert time.monotonic() < end, f"never held: {sql}"
            time.sleep(0.05)

    def stored(self, key: str = "files.orders") -> str | None:
        rows = self.ask("SELECT payload ->> 'value' FROM {s}.state WHERE scope = 'watermarks' AND state_key = %s", key)
        return rows[0][0] if rows else None


@pytest.fixture
def machines(tmp_path, pg18) -> Machines:
    return Machines(tmp_path, pg18)


@pytest.fixture
def machines_on_each(tmp_path, pg) -> Machines:
    """On each version of the server in turn."""
    return Machines(tmp_path, pg)


def failing(machine: ProjectTester) -> None:
    machine.write({"pipelines/broken.sql": "INSERT INTO {{ sink('lake', 'broken') }}\nSELECT error('no') AS x\n"})


def test_a_second_machine_goes_on_where_the_first_one_ended(machines_on_each) -> None:
    machines = machines_on_each
    one, two = machines.machine("one"), machines.machine("two")
    said = one.run("run")
    assert said.code == 0, said.err
    assert "note: state backend: PostgreSQL" in said.err and machines.server.password not in said.err + said.out
    assert f"({machines.schema}.runs)" in said.out and machines.stored() == "3"
    two.write({"in/orders.csv": ORDERS + "4,2026-01-01T00:00:04,40\n"})
    assert two.run("run").code == 0
    assert two.node("src_files__orders")["rows"] == 1 and machines.stored() == "4"
    seen = one.run("runs", "--json").json()
    assert [(run["status"], run["succeeded"]) for run in seen] == [("success", 3)] * 2
    assert seen == two.run("runs", "--json").json() == machines.machine("three").run("runs", "--json").json()
    names = machines.ask(
        "SELECT name, status, rows_moved, watermark_value FROM {s}.run_nodes ORDER BY run_id, position"
    )
    assert len(names) == 6 and ("src_files__orders", "success", 1, "4") in names
    assert machines.ask("SELECT count(*) FROM {s}.run_events") == [(0,)]


def test_a_retry_on_another_machine_chooses_the_run_that_failed_there(machines) -> None:
    one, two = machines.machine("one"), machines.machine("two")
    for machine in (one, two):
        failing(machine)
    assert one.run("run", "--all").code == 1
    said = two.run("retry")
    assert said.code == 1, said.err
    assert [node["name"] for node in two.results()["nodes"]] == ["broken", "lake.broken"]
    assert two.results()["retryOf"] == one.results()["runId"]
    two.write({"pipelines/broken.sql": "INSERT INTO {{ sink('lake', 'broken') }}\nSELECT 1 AS x\n"})
    assert two.run("retry").code == 0
    told = one.run("retry")
    assert told.code == 0 and "nothing to retry" in told.err


def test_a_run_that_was_killed_is_told_as_such_everywhere(machines) -> None:
    one, two = machines.machine("one"), machines.machine("two")
    assert one.run("run").code == 0
    one.write({"pipelines/slow.sql": "INSERT INTO {{ sink('lake', 'slow') }}\nSELECT sum(a.range * b.range) AS n "
               "FROM range(1000000) a, range(1000000) b\n"})  # fmt: skip
    going = one.start("run", "slow")
    try:
        machines.until("SELECT count(*) = 2 FROM {s}.runs")
        said = two.run("retry")
        assert (said.code, said.errors) == (2, ("PZ0503",)) and "still going on" in said.err
        refused = two.run("state", "clear", "files.orders", "--yes")
        assert refused.errors == ("PZ0517",)
        assert "is going on and was spared" in two.run("clean", "--keep-last", "0").err
    finally:
        going.send_signal(signal.SIGKILL)
        going.communicate()
    until = time.monotonic() + 20
    while "still going on" in (said := two.run("retry")).err and time.monotonic() < until:
        time.sleep(0.1)
    assert (said.code, said.errors) == (2, ("PZ0503",)) and "killed" in said.err
    assert [run["status"] for run in two.run("runs", "--json").json()] == ["running"]
    assert two.run("run").code == 0
    assert [run["status"] for run in one.run("runs", "--json").json()] == ["success", "running"]


def test_a_sweep_takes_whole_runs_from_the_store_and_from_here(machines) -> None:
    one = machines.machine("one", retention={"keep_last": 2})
    for _ in range(3):
        assert one.run("run").code == 0
    assert len(one.runs()) == 2 and machines.ask("SELECT count(DISTINCT run_id) FROM {s}.run_nodes") == [(2,)]
    two = machines.machine("two")
    newest = two.run("runs", "--json").json()[0]["runId"]
    dry = two.run("clean", "--dry-run")
    assert "would remove 1 run" in dry.out and len(two.run("runs", "--json").json()) == 2
    assert two.run("clean").code == 0
    assert [run["runId"] for run in two.run("runs", "--json").json()] == [newest]
    assert one.run("clean").code == 0  # what another machine has taken from the store goes here, too
    assert [run.name for run in one.runs()] == [newest]


def test_events_are_stored_where_the_project_asks(machines) -> None:
    one = machines.machine("one", state={"events": True})
    said = one.run("run", "--log-format", "json")
    assert said.code == 0
    stored = machines.ask("SELECT seq, event, payload FROM {s}.run_events ORDER BY seq")
    assert [row[0] for row in stored] == list(range(len(stored)))
    assert [row[2] for row in stored] == said.events()
    assert machines.ask("SELECT events_dropped FROM {s}.runs") == [(0,)]


def test_a_project_that_keeps_no_artifacts_there_stores_only_its_state(machines) -> None:
    one = machines.machine("one", state={"artifacts": False})
    said = one.run("run")
    assert said.code == 0 and "run_results.json" in said.out
    assert machines.ask("SELECT count(*) FROM {s}.runs") == [(0,)] and machines.stored() == "3"


def test_the_credentials_may_come_from_the_environment_alone(machines) -> None:
    one = machines.machine("one")
    state = {"backend": "postgres", "schema": machines.schema}
    one.write({"project.yml": {"name": "shared", "state": state}})
    env = {"PZ_STATE_CONNECTION_STRING": f"{machines.server.url}?options=-c%20work_mem%3D8MB"}
    said = one.run("run", env=env)
    assert said.code == 0, said.err
    assert machines.server.password not in said.err and machines.stored() == "3"
    assert one.run("state", "show", "--json", env=env).json()["watermarks"][0]["value"] == "3"
    broken = one.run("run", env={"PZ_STATE_CONNECTION_STRING": "Server=x;Password=hunter2"})
    assert (broken.code, broken.errors) == (2, ("PZ0125",)) and "hunter2" not in broken.err


def test_a_store_out_of_reach_is_refused_before_anything_is_read(machines) -> None:
    one = machines.machine("one", port=1)
    for argv in (["run"], ["retry"], ["runs"], ["state", "show"]):
        said = one.run(*argv)
        assert (said.code, said.errors) == (2, ("PZ0518",)), said.err
    assert one.runs() == [] and not (one.folder / "out").exists()


def test_of_two_runs_of_one_dataset_the_later_one_is_told(machines) -> None:
    one, two = machines.machine("one"), machines.machine("two")
    assert one.run("run").code == 0
    for machine, number in ((one, 4), (two, 5)):
        machine.write({"in/orders.csv": ORDERS + f"{number},2026-01-01T00:00:04,40\n"})
    with machines.server.connect() as holder, holder.transaction():
        holder.execute(f"LOCK TABLE {machines.schema}.state IN EXCLUSIVE MODE")  # both have read it before one writes
        going = [machine.start("run") for machine in (one, two)]
        machines.until("SELECT count(*) = 2 FROM pg_locks WHERE NOT granted")
    ended = [process.communicate(timeout=60)[1] for process in going]
    assert sorted(process.returncode for process in going) == [0, 1], ended
    won = [process.returncode for process in going].index(0)
    assert "PZ0527" in ended[1 - won] and "PZ0520" in ended[1 - won] and "pz retry" in ended[1 - won]
    assert machines.stored() == ("4", "5")[won]
    status = [run["status"] for run in two.run("runs", "--json").json()]
    assert sorted(status) == ["completed_with_failures", "success", "success"]


@pytest.mark.parametrize("swallow", [True, False], ids=["the answer is lost", "the write is lost"])
def test_a_connection_that_breaks_at_the_write_is_made_again(machines, swallow) -> None:
    host, port = machines.server.host, machines.server.port
    with DroppingProxy((host, port), after_seeing=b'."state" (', swallow_answer=swallow) as proxy:
        said = machines.machine("one", port=proxy.port).run("run")
        assert said.code == 0, said.err
        assert proxy.dropped == 1
    assert machines.stored() == "3" and machines.ask("SELECT status FROM {s}.runs") == [("success",)]


@pytest.mark.parametrize("swallow", [True, False], ids=["the answer is lost", "the write is lost"])
def test_a_store_that_stays_away_is_made_good_by_a_retry(machines, swallow) -> None:
    host, port = machines.server.host, machines.server.port
    assert machines.machine("two", state={"artifacts": False}).run("state", "show").code == 0  # makes the tables
    with DroppingProxy((host, port), after_seeing=b'."state" (', swallow_answer=swallow, times=99) as proxy:
        one = machines.machine("one", port=proxy.port)
        proxy_down = proxy.drop

        def drop_and_stay_away(pair) -> None:
            proxy.down = True
            proxy_down(pair)

        proxy.drop = drop_and_stay_away
        said = one.run("run")
        assert said.code == 1 and "PZ0527" in said.err and "PZ0518" in said.err, said.err
        assert machines.stored() == ("3" if swallow else None)
        assert one.results()["notStored"] == ["files.orders"]
        assert machines.ask("SELECT status FROM {s}.runs") == [("running",)]
        proxy.down, proxy.times, proxy.after_seeing = False, 0, None
        written = sorted((one.folder / "out").rglob("*.csv"))
        again = one.run("retry")
        assert again.code == 0, again.err
        assert sorted((one.folder / "out").rglob("*.csv")) == written, "rows were delivered again"
    assert machines.stored() == "3"
    status = machines.ask("SELECT status FROM {s}.runs ORDER BY run_id")
    assert status[0] == ("completed_with_failures",) and status[1:] in ([], [("success",)])


def test_what_another_project_stored_is_not_gone_on_from_silently(machines) -> None:
    one, two = machines.machine("one"), machines.machine("two")
    assert one.run("run").code == 0
    two.write({"project.yml": (two.folder / "project.yml").read_text().replace("shared", "other")})
    said = two.run("run")
    assert said.code == 0 and "written by project 'shared', and this is 'other'" in said.err
    assert [run["status"] for run in two.run("runs", "--json").json()] == ["success"]  # its own alone


def test_a_backend_without_runs_refuses_artifacts(tmp_path) -> None:
    from pz_core.errors import PzError
    from pz_core.project.model import StateConfig
    from pz_core.run.store import runs_of
    from pz_core.state.local import LocalState

    with pytest.raises(PzError) as caught:
        runs_of(LocalState({}, str(tmp_path)), StateConfig("other", artifacts=True))
    assert caught.value.code == "PZ0124"
    assert json.dumps(runs_of(LocalState({}, str(tmp_path)), StateConfig("local"))) == "null"


def test_events_that_the_store_does_not_take_are_counted_and_told(machines, monkeypatch) -> None:
    from pz_postgres.state_runs import PostgresRuns

    from pz_core.errors import PzError
    from pz_core.run import store

    def refuse(*_: object) -> None:
        raise PzError("PZ0518", "no", hint="wait")

    monkeypatch.setattr(store, "FAILURE_PAUSE", 0.01)
    monkeypatch.setattr(PostgresRuns, "add_events", refuse)
    one = machines.machine("one", state={"events": True})
    said = one.run("run")
    assert said.code == 0, said.err
    dropped = one.results()["eventsDropped"]
    assert dropped >= 8 and f"note: {dropped} events were not stored" in said.err
    assert machines.ask("SELECT events_dropped FROM {s}.runs") == [(dropped,)]
    assert machines.ask("SELECT count(*) FROM {s}.run_events") == [(0,)]


def test_a_run_that_cannot_be_begun_in_the_store_leaves_nothing_here(machines, monkeypatch) -> None:
    from pz_postgres.state_runs import PostgresRuns

    from pz_core.errors import PzError

    def refuse(*_: object) -> None:
        raise PzError("PZ0518", "no", hint="wait")

    monkeypatch.setattr(PostgresRuns, "begin", refuse)
    one = machines.machine("one")
    said = one.run("run")
    assert (said.code, said.errors) == (2, ("PZ0518",)) and one.runs() == []

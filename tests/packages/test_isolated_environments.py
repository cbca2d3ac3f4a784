"""``isolation: process`` from the lock to the run: two connectors that need clashing versions of one library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Pz, wheel

WILD = (Path(__file__).parents[1] / "isolation" / "wild_connector.py").read_text()


@pytest.fixture
def clash(tmp_path: Path) -> Path:
    """A folder of wheels: connectors alpha and beta, which agree on no version of wildlib."""
    folder = tmp_path / "wheels"
    for version, value in (("1.0", "old"), ("2.0", "new")):
        wheel(folder, "wildlib", version, code=f"VALUE = {value!r}\n")
    for name, needs in (("alpha", "wildlib<2"), ("beta", "wildlib>=2")):
        text = WILD.replace("wild:Wild", f"pz_connector_{name}:Wild").replace('"wild"', f'"{name}"')
        point = f"connector.{name} = pz_connector_{name}"
        wheel(folder, f"pz-connector-{name}", "1.0", [needs, "pz-core>=1,<2"], point, text)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that reads with alpha and writes with beta."""
    folder = tmp_path / "p"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "project.yml").write_text(
        "name: p\nversion: 1.0.0\nconnectors:\n"
        "  - {package: pz-connector-alpha, isolation: process}\n"
        "  - {package: pz-connector-beta, isolation: process}\n"
    )
    (folder / "connections.yml").write_text(
        "from: {connector: alpha, folder: ., password: some-secret-word}\nto: {connector: beta, folder: .}\n"
    )
    pipeline(folder, "rows", "out")
    return folder


def pipeline(root: Path, source: str, sink: str) -> None:
    (root / "pipelines" / "one.sql").write_text(
        f"INSERT INTO {{{{ sink('to', '{sink}', strategy: 'replace') }}}}\n"
        f"SELECT * FROM {{{{ source('from', '{source}', rows: 3, retry: {{ max_attempts: 1 }}) }}}}\n"
    )


@pytest.fixture
def synced(pz: Pz, clash: Path, root: Path) -> Path:
    assert pz("deps", "lock", "--project", root, "--find-links", clash).code == 0
    said = pz("deps", "sync", "--isolated", "--project", root, "--find-links", clash)
    assert said.code == 0, said.err
    assert "environment of pz-connector-alpha" in said.out
    return root


def test_connectors_that_clash_work_in_one_project(pz: Pz, synced: Path, clash: Path) -> None:
    document = json.loads((synced / "pz.lock.json").read_text())
    assert sorted(document["environments"]) == ["main", "pz-connector-alpha", "pz-connector-beta"]
    assert [p["name"] for p in document["environments"]["main"]] == ["pz-core"]
    said = pz("run", "--project", synced)
    assert said.code == 0, said.err
    rows = [json.loads(line) for line in (synced / "out.txt").read_text().splitlines()]
    assert rows == [{"n": n, "lib": "old", "sink": "new"} for n in range(3)]
    left = "".join(path.read_text() for path in (synced / ".pz" / "runs").rglob("*.json"))
    assert "some-secret-word" not in left + said.out + said.err
    again = pz("deps", "sync", "--isolated", "--project", synced, "--find-links", clash)
    assert "nothing to install" in again.out


def test_a_death_of_the_child_fails_its_node_alone(pz: Pz, synced: Path) -> None:
    pipeline(synced, "segv_in_read", "out")
    (synced / "pipelines" / "two.sql").write_text(
        "INSERT INTO {{ sink('to', 'other', strategy: 'replace') }}\nSELECT 1::BIGINT AS n, 'x' AS lib\n"
    )
    said = pz("run", "--all", "--project", synced)
    assert said.code == 1
    assert "error PZ0358: pz-connector-alpha: its process died during read(): signal SIGSEGV" in said.err
    assert not (synced / "out.txt").exists()
    assert (synced / "other.txt").exists()
    pipeline(synced, "rows", "out")
    assert pz("run", "--all", "--project", synced).code == 0


def test_a_node_that_hangs_in_the_child_ends_with_its_timeout(
    pz: Pz, synced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pz_core.plugins.isolation.process.GRACE_SECONDS", 0.1)
    monkeypatch.setattr("pz_core.plugins.isolation.proxy.CLOSE_SECONDS", 0.2)
    with (synced / "project.yml").open("a") as file:
        file.write("engine: {node_timeout: 500ms}\n")
    for source, sink in (("hang_in_read", "out"), ("rows", "hang_in_write")):
        pipeline(synced, source, sink)
        said = pz("run", "--project", synced)
        assert said.code == 1
        assert "error PZ0525: " in said.err


def test_without_its_environment_a_run_is_refused_with_the_way_out(pz: Pz, clash: Path, root: Path) -> None:
    assert pz("deps", "lock", "--project", root, "--find-links", clash).code == 0
    for verb in ("validate", "run"):
        said = pz(verb, "--project", root)
        assert said.code == 2
        assert "error PZ0354: " in said.err
        assert "hint: run pz deps sync --isolated" in said.err
    plain = pz("deps", "sync", "--project", root, "--find-links", clash)
    assert plain.code == 0
    assert "note: the environments of pz-connector-alpha, pz-connector-beta are not as the lock says" in plain.err
    said = pz("deps", "check", "--project", root)
    assert (said.code, said.err.count("error PZ0354")) == (1, 2)


def test_what_differs_in_an_environment_is_found_and_put_right(pz: Pz, synced: Path, clash: Path) -> None:
    (site,) = (synced / ".pz" / "envs" / "pz-connector-alpha").glob("lib/python*/site-packages")
    assert pz("deps", "check", "--project", synced).code == 0
    (site / "wildlib.py").unlink()
    (site / "wildlib.py").write_text("VALUE = 'edited'\n")
    said = pz("deps", "check", "--project", synced)
    assert (said.code, "error PZ0326: wildlib 1.0: wildlib.py was changed" in said.err) == (1, True)
    (site / "wildlib-1.0.dist-info").rename(site / "wildlib-1.1.dist-info")
    said = pz("run", "--project", synced)
    assert said.code == 2
    assert "error PZ0321: the environment of pz-connector-alpha has wildlib 1.1, and pz.lock.json says 1.0" in said.err
    assert not (synced / ".pz" / "runs").exists()
    assert pz("deps", "sync", "--isolated", "--project", synced, "--find-links", clash).code == 0
    assert pz("deps", "check", "--project", synced).code == 0
    assert "edited" not in (site / "wildlib.py").read_text()


def test_a_wheel_that_changed_after_locking_makes_no_environment(
    pz: Pz, clash: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pz("deps", "lock", "--project", root, "--find-links", clash).code == 0
    wheel(clash, "wildlib", "1.0", code="VALUE = 'other bytes'\n")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))  # the one in use has the locked bytes
    said = pz("deps", "sync", "--isolated", "--project", root, "--find-links", clash)
    assert said.code == 2
    assert said.err.startswith("error PZ0327: wildlib")
    assert not list((root / ".pz" / "envs").glob("pz-connector-alpha*"))


def test_a_package_without_a_file_for_this_platform_is_told_by_its_name(pz: Pz, clash: Path, root: Path) -> None:
    assert pz("deps", "lock", "--project", root, "--find-links", clash).code == 0
    made = clash / "wildlib-1.0-py3-none-any.whl"
    made.rename(clash / "wildlib-1.0-py3-none-win_arm64.whl")
    said = pz("deps", "sync", "--isolated", "--project", root, "--find-links", clash)
    assert said.code == 2
    assert said.err.startswith("error PZ0307: pz-connector-alpha: ")

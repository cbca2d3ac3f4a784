"""The lock against ``project.yml`` and what is installed: at every load, in ``deps check`` and in ``deps sync``."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pz_core import __version__
from pz_core.packages.uv import find_uv

from .conftest import Pz, project, wheel


def write_lock(folder: Path, *packages: dict[str, Any], projects: tuple[str, ...] = (".",)) -> Path:
    document = {
        "version": 1,
        "requires_python": ">=3.11",
        "projects": list(projects),
        "environments": {"main": list(packages)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pz.lock.json").write_text(json.dumps(document))
    return folder


def entry(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "files": [{"sha256": "0" * 64}], **more}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, to install wheels into."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def unpack(made: Path, site: Path) -> None:
    with zipfile.ZipFile(made) as archive:
        archive.extractall(site)


def runnable(root: Path) -> Path:
    """Give a project something to validate."""
    (root / "connections.yml").write_text("{}\n")
    (root / "pipelines").mkdir(exist_ok=True)
    (root / "pipelines" / "one.sql").write_text("SELECT 1 AS x\n")
    return root


# --- at every load ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [("validate",), ("plan",), ("run",), ("test",)])
def test_a_lock_that_does_not_fit_project_yml_is_refused_before_a_run(
    pz: Pz, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    root = runnable(project(tmp_path / "p", "pz-connector-zz >=2", "pz-connector-yy"))
    write_lock(root, entry("pz-connector-zz", "1.0"))
    said = pz(*verb, "--project", root)
    assert said.code == 2
    lines = said.err.splitlines()
    assert any(line.startswith("error PZ0323") and "pz-connector-zz >=2" in line and "1.0" in line for line in lines)
    assert any(line.startswith("error PZ0323") and "pz-connector-yy" in line for line in lines)
    assert any("error PZ0321: pz-connector-zz is not installed" in line for line in lines)
    assert "(project.yml:4)" in said.err
    assert not (root / ".pz" / "runs").exists()
    assert pz(*verb, "--project", root, "--no-lock-check").code == 0


def test_another_installed_version_than_the_locked_one_is_refused(pz: Pz, tmp_path: Path, site: Path) -> None:
    unpack(wheel(tmp_path, "pz-connector-zz", "1.0.0"), site)
    root = runnable(project(tmp_path / "p", "pz-connector-zz"))
    write_lock(root, entry("pz-connector-zz", "1.1"))
    said = pz("validate", "--project", root)
    assert said.code == 2
    assert "error PZ0321: pz-connector-zz 1.0.0 is installed, and pz.lock.json says 1.1" in said.err
    assert "--no-lock-check" in said.err
    write_lock(root, entry("pz-connector-zz", "1.0"), entry("absent", "1", markers="sys_platform == 'nowhere'"))
    assert pz("validate", "--project", root).code == 0


def test_a_local_package_fits_by_its_version(pz: Pz, tmp_path: Path, site: Path) -> None:
    unpack(wheel(tmp_path, "pz-connector-zz", "1.0"), site)
    root = runnable(project(tmp_path / "p", "pz-connector-zz"))
    write_lock(tmp_path, {"name": "pz-connector-zz", "version": "1.0", "path": "zz"}, projects=("p",))
    assert pz("validate", "--project", root).code == 0


def test_the_core_must_be_in_its_range(pz: Pz, tmp_path: Path, site: Path) -> None:
    unpack(wheel(tmp_path, "pz-connector-zz", "1.0"), site)
    root = runnable(project(tmp_path / "p", "pz-connector-zz"))
    write_lock(root, entry("pz-connector-zz", "1.0"), {"name": "pz-core", "range": ">=99"})
    said = pz("validate", "--project", root)
    assert said.code == 2
    assert f"error PZ0321: pz-core {__version__} runs, and pz.lock.json asks for >=99" in said.err


def test_no_lock_is_a_note_for_packages_of_others_only(pz: Pz, tmp_path: Path) -> None:
    said = pz("validate", "--project", runnable(project(tmp_path / "p", "pz-connector-zz")))
    assert said.code == 0
    assert "note: pz-connector-zz may be any version that project.yml allows: there is no pz.lock.json" in said.err
    own = pz("validate", "--project", runnable(project(tmp_path / "q", "pz-connector-localfiles")))
    assert (own.code, "pz.lock.json" in own.err) == (0, False)


def test_the_lock_is_found_upwards_but_not_above_the_repository(pz: Pz, tmp_path: Path) -> None:
    root = runnable(project(tmp_path / "repo" / "sub" / "p", "pz-connector-zz"))
    write_lock(tmp_path / "repo", entry("pz-connector-zz", "1.0"), projects=("sub/p",))
    assert "error PZ0321" in pz("validate", "--project", root).err
    (tmp_path / "repo" / "sub" / ".git").write_text("gitdir: elsewhere\n")
    said = pz("validate", "--project", root)
    assert (said.code, "there is no pz.lock.json" in said.err) == (0, True)


def test_a_lock_that_does_not_name_the_project_is_passed_over_with_a_note(pz: Pz, tmp_path: Path) -> None:
    root = runnable(project(tmp_path / "sub" / "p", "pz-connector-zz"))
    write_lock(tmp_path / "sub", entry("pz-connector-zz", "9"), projects=("other",))
    write_lock(tmp_path, entry("pz-connector-zz", "1.0"), projects=("sub/p",))
    said = pz("validate", "--project", root)
    assert "note: ../pz.lock.json does not name this project, so it is passed over" in said.err
    assert "pz.lock.json says 1.0" in said.err


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1}', '{"version": 99, "projects": []}', "\xff"])
def test_a_damaged_lock_is_refused_with_a_way_out(pz: Pz, tmp_path: Path, text: str) -> None:
    root = runnable(project(tmp_path / "p", "pz-connector-zz"))
    (root / "pz.lock.json").write_bytes(text.encode("latin-1"))
    for verb in (("validate",), ("deps", "check"), ("deps", "lock")):
        said = pz(*verb, "--project", root)
        assert said.code == 2
        assert "error PZ0101: pz.lock.json" in said.err
        assert " - hint: " in said.err


def test_the_check_does_not_import_uv(tmp_path: Path) -> None:
    root = runnable(project(tmp_path / "p", "pz-connector-zz"))
    write_lock(root, entry("pz-connector-zz", "1.0"))
    code = (
        "import sys; from pz_core.cli.main import invoke; "
        f"print(invoke(['validate', '--project', {str(root)!r}]), 'uv' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


# --- deps check ------------------------------------------------------------------------------------------------------


def test_check_needs_a_lock(pz: Pz, tmp_path: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-zz")
    for verb in ("check", "tree", "sync", "outdated"):
        said = pz("deps", verb, "--project", root)
        assert said.code == 2
        assert said.err.startswith("error PZ0322: ")


def test_check_compares_versions_and_files(pz: Pz, tmp_path: Path, site: Path) -> None:
    unpack(wheel(tmp_path, "pz-connector-zz", "1.0"), site)
    root = project(tmp_path / "p", "pz-connector-zz")
    write_lock(root, entry("pz-connector-zz", "1.0"))
    assert pz("deps", "check", "--project", root).code == 0
    (site / "pz_connector_zz.py").write_text("VALUE = 2\n")
    said = pz("deps", "check", "--project", root)
    assert said.code == 1
    assert "error PZ0326: pz-connector-zz 1.0: pz_connector_zz.py was changed after it was installed" in said.err
    (site / "pz_connector_zz.py").unlink()
    assert "pz_connector_zz.py is gone" in pz("deps", "check", "--project", root).err
    document = json.loads(pz("deps", "check", "--project", root, "--json").out)
    assert (document["fits"], document["errors"][0]["code"]) == (False, "PZ0326")
    write_lock(root, entry("pz-connector-zz", "2.0"))
    assert "error PZ0321" in pz("deps", "check", "--project", root).err


def test_check_tells_of_a_file_that_two_packages_bring(pz: Pz, tmp_path: Path, site: Path) -> None:
    for name in ("pz-connector-zz", "zz-helper"):
        unpack(wheel(tmp_path, name, "1.0"), site)
        record = site / f"{name.replace('-', '_')}-1.0.dist-info" / "RECORD"
        lines = (site / "pz_connector_zz-1.0.dist-info" / "RECORD").read_text().splitlines()
        record.write_text(f"{record.read_text()}{lines[0]}\n" if name == "zz-helper" else record.read_text())
    root = project(tmp_path / "p", "pz-connector-zz")
    write_lock(root, entry("pz-connector-zz", "1.0"), entry("zz-helper", "1.0"))
    said = pz("deps", "check", "--project", root)
    assert said.code == 1
    assert "error PZ0325: pz-connector-zz and zz-helper both bring the file pz_connector_zz.py" in said.err


def test_an_editable_package_is_compared_by_version_alone(pz: Pz, tmp_path: Path, site: Path) -> None:
    unpack(wheel(tmp_path, "pz-connector-zz", "1.0"), site)
    (site / "pz_connector_zz-1.0.dist-info" / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    (site / "pz_connector_zz.py").write_text("VALUE = 2\n")
    root = project(tmp_path / "p", "pz-connector-zz")
    write_lock(root, entry("pz-connector-zz", "1.0"))
    said = pz("deps", "check", "--project", root)
    assert said.code == 0
    assert "only the version was compared: pz-connector-zz" in said.err


def test_tree_shows_who_needs_what(pz: Pz, tmp_path: Path, index: Path) -> None:
    root = project(tmp_path / "p", "pz-connector-a >=1 <2")
    pz("deps", "lock", "--project", root, "--find-links", index)
    assert pz("deps", "tree", "--project", root).out.splitlines() == [
        "pz-connector-a 1.1  (asked for: >=1,<2)",
        "  pz-core >=1.0",
        "  shared 1.0",
        "  winonly 3.0  [sys_platform == 'win32']",
    ]
    document = json.loads(pz("deps", "tree", "--project", root, "--json").out)
    assert document["requirements"][0]["package"] == "pz-connector-a"
    assert [package["name"] for package in document["environments"]["main"]] == [
        "pz-connector-a",
        "pz-core",
        "shared",
        "winonly",
    ]


# --- deps sync -------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh environment that uv installs into, and that is on the path here."""
    folder = tmp_path / "env"
    subprocess.run([find_uv(), "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    (found,) = [*folder.glob("lib/python*/site-packages"), *folder.glob("Lib/site-packages")]
    binary = next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())
    monkeypatch.syspath_prepend(str(found))
    monkeypatch.setattr("pz_core.packages.sync.python", lambda: ("--python", str(binary)))
    return found


def test_sync_installs_what_the_lock_says_and_puts_changed_files_back(
    pz: Pz, tmp_path: Path, index: Path, environment: Path
) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    said = pz("deps", "sync", "--project", root, "--find-links", index)
    assert (said.code, said.err) == (0, "")
    assert (environment / "pz_connector_a.py").exists()
    assert (environment / "shared-1.0.dist-info").exists()
    assert not (environment / "winonly.py").exists()
    assert pz("deps", "check", "--project", root).code == 0
    (environment / "shared.py").unlink()
    (environment / "shared.py").write_text("VALUE = 3\n")
    assert pz("deps", "check", "--project", root).code == 1
    assert pz("restore", "--project", root, "--find-links", index).code == 0
    assert (environment / "shared.py").read_text() == "VALUE = 1\n"
    assert "nothing to install" in pz("restore", "--project", root, "--find-links", index).out


def test_sync_refuses_a_file_with_other_bytes(
    pz: Pz, tmp_path: Path, index: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    wheel(index, "shared", "1.0", code="VALUE = 2\n")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))  # the one in use has the locked bytes
    said = pz("deps", "sync", "--project", root, "--find-links", index)
    assert said.code == 2
    assert said.err.startswith("error PZ0327: shared")
    assert not (environment / "shared.py").exists()


def test_sync_refuses_outside_of_an_environment_and_with_a_stale_lock(
    pz: Pz, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "p", "pz-connector-a")
    pz("deps", "lock", "--project", root, "--find-links", index)
    monkeypatch.setattr("pz_core.packages.sync.in_environment", lambda: False)
    said = pz("deps", "sync", "--project", root, "--find-links", index)
    assert (said.code, "--system" in said.err) == (2, True)
    assert said.err.startswith("error PZ0329: ")
    project(root, "pz-connector-a ==1.0")
    assert pz("deps", "sync", "--project", root, "--find-links", index).err.startswith("error PZ0323: ")


def test_a_loads_check_reads_one_file_and_imports_no_plugin(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps it quick: the lock is all that is read of files, and nothing of a package is imported."""
    from pz_core.cli.locks import check_lock
    from pz_core.cli.prepare import open_graph

    names = [f"pz-connector-quick{number}" for number in range(20)]
    for name in names:
        unpack(wheel(tmp_path, name, "1.0", points=f"connector.{name[13:]} = {name.replace('-', '_')}"), site)
    root = runnable(project(tmp_path / "p", *names))
    write_lock(root, *(entry(name, "1.0", markers="python_version >= '3'") for name in names))
    graph, registry = open_graph(root)
    assert len(registry.names("connector")) == 20
    read: list[str] = []

    def watched(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("open", "import", "subprocess.Popen"):
            read.append(str(arguments[0]))

    watching = False
    sys.addaudithook(watched)
    check_lock(graph, registry, skip=False)  # imports what it needs, once
    watching = True
    try:
        check_lock(graph, registry, skip=False)
    finally:
        watching = False
    assert read == [str(root / "pz.lock.json")]
    assert not [name for name in sys.modules if name.startswith("pz_connector_quick")]

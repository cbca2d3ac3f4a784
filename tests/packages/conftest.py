"""Home-made wheels in a folder, and the command line in this process."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pz_core.cli.main import invoke


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Pz = Callable[..., Said]


def wheel(
    folder: Path, name: str, version: str, requires: Iterable[str] = (), points: str = "", code: str = "VALUE = 1\n"
) -> Path:
    """A wheel with one module, written without a build backend."""
    base = name.replace("-", "_")
    inside = f"{base}-{version}.dist-info"
    files = {
        f"{base}.py": code,
        f"{inside}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {required}\n" for required in requires),
        f"{inside}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if points:
        files[f"{inside}/entry_points.txt"] = f"[pz]\n{points}\n"
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{base}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
        archive.writestr(zipfile.ZipInfo(f"{inside}/RECORD"), f"{record}{inside}/RECORD,,\n")
    return made


def _digest(text: str) -> str:
    made = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"sha256={made}"


def project(folder: Path, *packages: str, plugins: Iterable[str] = ()) -> Path:
    """A project that lists packages, each ``name`` or ``name version``."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["name: p", "version: 1.0.0"]
    for key, listed in (("connectors", packages), ("plugins", tuple(plugins))):
        if listed:
            lines.append(f"{key}:")
        for text in listed:
            name, _, version = text.partition(" ")
            lines.append(f"  - {{package: {name}" + (f', version: "{version}"}}' if version else "}"))
    (folder / "project.yml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of wheels: connector a (two versions, newest with a part for Windows), b that cannot go with a."""
    folder = tmp_path / "wheels"
    wheel(folder, "shared", "1.0")
    wheel(folder, "shared", "2.0")
    wheel(folder, "winonly", "3.0")
    wheel(folder, "pz-connector-a", "1.0", ["shared<2", "pz-core>=1,<2"], "connector.a = pz_connector_a")
    wheel(
        folder,
        "pz-connector-a",
        "1.1",
        ["shared<2", "pz-core>=1.0", "winonly; sys_platform == 'win32'"],
        "connector.a = pz_connector_a",
    )
    wheel(folder, "pz-connector-b", "1.0", ["shared>=2", "pz-core>=1"])
    wheel(folder, "pz-connector-next", "1.0", ["pz-core>=3"])
    wheel(folder, "pz-connector-lost", "1.0", ["nowhere>=3"])
    wheel(folder, "pz-connector-old", "1.0", ["duckdb<1"])
    wheel(folder, "duckdb", "0.9")
    return folder


@pytest.fixture(autouse=True)
def only_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No index, no settings of this machine, and a place where the search upwards ends."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) and name != "UV_CACHE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / ".git").mkdir()


@pytest.fixture
def pz(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pz:
    """Calls the command line in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str | Path) -> Said:
        capsys.readouterr()
        code = invoke([str(part) for part in argv])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call

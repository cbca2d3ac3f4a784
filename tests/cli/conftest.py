from __future__ import annotations

from collections.abc import Callable
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


@pytest.fixture
def pz(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pz:
    """Calls the command line in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("PZ_DEBUG", "_PZ_COMPLETE"):
        monkeypatch.delenv(name, raising=False)

    def call(*argv: str) -> Said:
        capsys.readouterr()
        code = invoke(argv)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call

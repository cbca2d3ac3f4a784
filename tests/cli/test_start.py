"""What the command line costs before it knows what to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pz_core.cli.verbs import VERBS

_HEAVY = (
    "duckdb",
    "pyarrow",
    "rich",
    "jinja2",
    "sqlglot",
    "yaml",
    "pluggy",
    "importlib_metadata",
    "pz_localfiles",
    "pz_duckdb",
)


def _modules_after(argv: list[str], env: dict[str, str] | None = None) -> set[str]:
    code = f"import sys\nfrom pz_core.cli.main import invoke\ninvoke({argv!r})\nprint('\\n@' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **(env or {})},
        check=True,
    )
    return set(done.stdout.rpartition("@")[2].split())


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (["--version"], None),
        (["--help"], None),
        (["no_such_verb"], None),
        ([], {"_PZ_COMPLETE": "bash_complete", "COMP_WORDS": "pz r", "COMP_CWORD": "1"}),
    ],
)
def test_help_version_and_completion_import_no_verb_and_no_plugin(argv: list[str], env: dict[str, str] | None) -> None:
    loaded = _modules_after(argv, env)
    assert "pz_core.cli.main" in loaded
    verbs = {verb.target.partition(":")[0] for name, verb in VERBS.items() if name != "completion"}
    assert not verbs & loaded
    assert not {m for m in loaded if m.split(".")[0] in _HEAVY}
    assert not {
        m for m in loaded if m.startswith(("pz_core.plugins", "pz_core.run", "pz_core.compile", "pz_core.project"))
    }


def test_version_does_not_even_import_click() -> None:
    assert "click" not in _modules_after(["--version"])


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_help_of_a_verb_imports_nothing_heavy(verb: str) -> None:
    loaded = _modules_after([verb, "--help"])
    assert not {m for m in loaded if m.split(".")[0] in _HEAVY}

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
def test_each_shell_gets_a_script_that_calls_back(pz: Any, shell: str) -> None:
    said = pz("completion", shell)
    assert said.code == 0 and said.err == ""
    assert "_PZ_COMPLETE" in said.out and f"{shell}_complete" in said.out
    assert "\r" not in said.out


def test_an_unknown_shell_is_refused_with_the_known_ones(pz: Any) -> None:
    said = pz("completion", "tcsh")
    assert said.code == 2
    assert said.err.startswith("error PZ0535: ") and "tcsh" in said.err and "pwsh" in said.err


def test_help_has_a_line_for_each_shell(pz: Any) -> None:
    lines = [line.strip() for line in pz("completion", "--help").out.splitlines()]
    assert [line.partition(":")[0] for line in lines if ">" in line] == ["bash", "zsh", "fish", "pwsh"]


def _complete(shell: str, env: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pz_core"],
        env={**os.environ, "_PZ_COMPLETE": f"{shell}_complete", **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_verbs_are_completed() -> None:
    assert _complete("bash", {"COMP_WORDS": "pz co", "COMP_CWORD": "1"}) == [
        "plain,compile",
        "plain,connectors",
        "plain,completion",
    ]


def test_options_of_a_verb_are_completed() -> None:
    found = _complete("bash", {"COMP_WORDS": "pz run --fu", "COMP_CWORD": "2"})
    assert found == ["plain,--full-refresh"]


def test_powershell_gets_values_with_their_help() -> None:
    found = _complete("pwsh", {"PZ_COMPLETE_WORDS": "pz", "PZ_COMPLETE_INCOMPLETE": "val"})
    assert found == ["validate\tCheck the whole project without running it."]
    found = _complete("pwsh", {"PZ_COMPLETE_WORDS": "pz\nrun", "PZ_COMPLETE_INCOMPLETE": "--sel"})
    assert [line.split("\t")[0] for line in found] == ["--select"]

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pz_core import __version__
from pz_core.cli import ls as ls_module
from pz_core.cli.app import cli
from pz_core.cli.verbs import VERBS
from pz_core.errors import Notice, PzError, PzErrors, Where


def test_version(pz: Any) -> None:
    assert pz("--version").out == f"pz {__version__}\n"


def test_every_verb_of_the_table_exists_under_its_name(pz: Any) -> None:
    for name in VERBS:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None and command.name == name
        said = pz(name, "-h")
        assert said.code == 0 and said.out.startswith(f"Usage: pz {name}")


def test_help_lists_every_verb_with_its_line(pz: Any) -> None:
    said = pz("--help")
    assert said.code == 0
    assert all(name in said.out and verb.summary in said.out for name, verb in VERBS.items())


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["rnu"], "Did you mean run"),
        (["run", "--al"], "--all"),
        (["run", "--log-format", "xml"], "xml"),
        (["runs", "--limit", "many"], "many"),
        (["completion"], "Missing argument"),
        (["ls", "surplus"], "surplus"),
        (["run", "--state-url"], "--state-url"),
    ],
)
def test_wrong_usage_is_one_line_on_stderr_and_exit_2(pz: Any, argv: list[str], expected: str) -> None:
    said = pz(*argv)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1 and said.err.startswith("error: ")
    assert expected in said.err


def test_no_verb_shows_the_help_and_is_wrong_usage(pz: Any) -> None:
    said = pz()
    assert said.code == 2
    assert "Verbs:" in said.out + said.err


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr(ls_module, "open_graph", fail)


FAULTS = PzErrors(
    [
        PzError("PZ0206", "two\nlines", where=Where("pipelines/b.sql", 3), hint="do this"),
        PzError("PZ0101", "first \x1b[31mfile", where=Where("a.yml")),
    ],
    [Notice("warning", "odd", "PZ0208")],
)


def test_all_faults_of_a_stage_are_told_in_order_one_a_line(pz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, FAULTS)
    said = pz("ls")
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        "warning PZ0208: odd",
        "error PZ0101: first file (a.yml)",
        "error PZ0206: two lines (pipelines/b.sql:3) - hint: do this",
    ]


def test_with_json_the_faults_are_a_document_on_stdout_too(pz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, FAULTS)
    said = pz("ls", "--json")
    assert said.code == 2 and "error PZ0206" in said.err
    errors = json.loads(said.out)["errors"]
    assert [e["code"] for e in errors] == ["PZ0101", "PZ0206"]
    assert errors[1] == {
        "code": "PZ0206",
        "message": "two\nlines",
        "file": "pipelines/b.sql",
        "line": 3,
        "hint": "do this",
    }


def test_wrong_usage_with_json_is_a_document_as_well(pz: Any) -> None:
    said = pz("ls", "--json", "--nope")
    assert said.code == 2
    assert "--nope" in json.loads(said.out)["errors"][0]["message"]


def test_an_unforeseen_fault_is_coded_and_shows_neither_trace_nor_text(
    pz: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _raising(monkeypatch, ValueError("hunter2"))
    said = pz("ls")
    assert said.code == 3
    assert said.err.startswith("error PZ0500: internal error: ValueError") and said.err.count("\n") == 1
    assert "hunter2" not in said.err and "Traceback" not in said.err


@pytest.mark.parametrize(("value", "traced"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_pz_debug_adds_the_stack_trace(pz: Any, monkeypatch: pytest.MonkeyPatch, value: str, traced: bool) -> None:
    _raising(monkeypatch, ValueError("x"))
    monkeypatch.setenv("PZ_DEBUG", value)
    assert ("Traceback" in pz("ls").err) is traced


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionError(13, "denied", "/x/project.yml"), "PZ0531"),
        (OSError(30, "read-only", "/x/.pz"), "PZ0531"),
        (OSError(28, "full", "/x/big"), "PZ0532"),
        (OSError(5, "input/output", "/x/disk"), "PZ0500"),
        (MemoryError(), "PZ0500"),
        (RecursionError(), "PZ0500"),
    ],
)
def test_faults_of_the_machine_have_codes_by_their_type(
    pz: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: str
) -> None:
    _raising(monkeypatch, error)
    said = pz("ls")
    assert said.code == 3
    assert said.err.startswith(f"error {code}: ")
    if code != "PZ0500":
        assert str(error.filename) in said.err  # type: ignore[attr-defined]


def test_ctrl_c_is_a_message_and_exit_3(pz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    said = pz("ls")
    assert said.code == 3 and said.err == "error: cancelled\n"


def _child(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "pz_core", *argv], **options)


@pytest.mark.parametrize("verb", [["explain"], ["--help"]])
def test_a_reader_who_leaves_at_once_is_quiet(verb: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = _child(verb, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stdout_is_told_and_not_a_traceback() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        child = _child(["explain"], stdout=full, stderr=subprocess.PIPE)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 3
    assert err.startswith(b"error PZ0532: ") and b"Traceback" not in err


def test_output_is_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    target = tmp_path / "größe-漢字"
    env = {
        **os.environ,
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    child = _child(["init", str(target)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    # The C locale may hand the name over as bytes that are no text: those are escaped, never a fault.
    assert b"scaffolded 'gr_" in out and out.decode("utf-8")

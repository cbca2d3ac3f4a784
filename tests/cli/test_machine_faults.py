from __future__ import annotations

import builtins
import errno

import pytest

import pz_core.project


@pytest.mark.parametrize(
    ("number", "winerror", "code"),
    [(errno.EACCES, None, "PZ0531"), (errno.ENOSPC, None, "PZ0532"), (errno.EACCES, 32, "PZ0533")],
)
def test_a_fault_of_the_machine_ends_a_verb_with_its_code_and_exit_3(pz, monkeypatch, number, winerror, code):
    def failing(*args: object, **kwargs: object) -> None:
        error = OSError(number, "words of the system", "project.yml")
        if winerror is not None:
            error.winerror = winerror
        raise error

    monkeypatch.setattr(pz_core.project, "load_project", failing)
    said = pz("compile")
    assert said.code == 3
    assert said.err.startswith(f"error {code}: ") and "project.yml" in said.err and "hint: " in said.err


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOTDIR, errno.EEXIST])
def test_a_file_where_a_folder_is_needed_is_told_by_its_path(pz, monkeypatch, number):
    def failing(*args: object, **kwargs: object) -> None:
        raise OSError(number, "words of the system", ".pz/target")

    monkeypatch.setattr(pz_core.project, "load_project", failing)
    said = pz("compile")
    assert said.code == 3 and said.err.startswith("error PZ0531: ") and ".pz/target" in said.err


def test_a_current_folder_that_is_gone_is_told(pz, monkeypatch):
    def failing(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(pz_core.project, "load_project", failing)
    said = pz("compile")
    assert said.code == 3 and "the current folder is not there any more" in said.err


def test_ctrl_c_in_the_middle_of_an_import_is_no_traceback(pz, monkeypatch):
    def interrupted(name: str, *args: object) -> object:
        if name.startswith(("pz_core.cli.app", "pz_core.cli.failures")):
            raise KeyboardInterrupt
        return real(name, *args)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    said = pz("compile")
    assert (said.code, said.err) == (3, "error: cancelled\n")

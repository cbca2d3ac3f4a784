from __future__ import annotations

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

from __future__ import annotations

import errno

import pytest

from pz_core.run.faults import node_fault, unexpected


def os_error(number: int, *, winerror: int | None = None) -> OSError:
    made = OSError(number, "words of the system", "out/a.parquet")
    if winerror is not None:
        made.winerror = winerror
    return made


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (os_error(errno.EACCES), "PZ0531"),
        (os_error(errno.ENOSPC), "PZ0532"),
        (os_error(errno.EACCES, winerror=32), "PZ0533"),
        (os_error(errno.EACCES, winerror=33), "PZ0533"),
        (os_error(errno.EIO), "PZ0501"),
    ],
)
def test_a_fault_of_the_machine_is_told_by_its_kind_with_the_file(error, code):
    made = node_fault(error, "lake.a")
    assert (made.code, made.where.node) == (code, "lake.a")
    assert code == "PZ0501" or "out/a.parquet" in made.message
    assert "words of the system" not in made.message and made.hint


def test_outside_a_node_what_is_no_fault_of_the_machine_is_one_of_pz():
    assert unexpected(os_error(errno.EACCES, winerror=32)).code == "PZ0533"
    assert unexpected(RuntimeError("a value of the data")).code == "PZ0500"
    assert "value" not in unexpected(RuntimeError("a value of the data")).message


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST])
def test_a_read_only_place_and_a_file_where_a_folder_is_needed_are_no_faults_of_pz(number):
    for made in (node_fault(os_error(number), "lake.a"), unexpected(os_error(number))):
        assert made.code == "PZ0531" and "out/a.parquet" in made.message and made.hint


def test_any_other_fault_of_the_system_says_its_kind_and_not_its_words():
    made = node_fault(os_error(errno.ENAMETOOLONG), "lake.a")
    assert made.code == "PZ0501" and "File name too long" in made.message
    assert "words of the system" not in made.render()

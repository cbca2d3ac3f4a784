from __future__ import annotations

import io
import subprocess
import sys

import pytest

from pz_core.render.stream import is_interactive, write


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({}, True),
        ({"CI": ""}, False),
        ({"CI": "true"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_the_environment_can_ask_for_plain_lines(environ: dict[str, str], expected: bool) -> None:
    assert is_interactive(environ, Terminal()) is expected


def test_what_is_no_terminal_gets_plain_lines() -> None:
    assert not is_interactive({}, io.StringIO())
    assert not is_interactive({}, None)
    closed = Terminal()
    closed.close()
    assert not is_interactive({}, closed)


def test_a_reader_who_leaves_is_no_fault_and_the_work_goes_on() -> None:
    code = (
        "import sys; from pz_core.render.stream import emit, prepare_streams; prepare_streams()\n"
        "for _ in range(20000): emit('x' * 50)\n"
        "print('went on', file=sys.stderr); sys.exit(0)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    err = child.stderr.read().decode()
    child.stderr.close()
    assert child.wait(20) == 0
    assert err.strip() == "went on"


def test_other_faults_of_the_stream_are_not_swallowed() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError):
        write(Full(), "x")


def test_no_stream_at_all_is_no_fault() -> None:
    write(None, "x")

from __future__ import annotations

import pytest

from pz_core.render.text import clean, clean_lines, elapsed, exact_duration, plural, rate, size


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain äß漢字 🚀", "plain äß漢字 🚀"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x9b31mred", "red"),
        ("bell\x07 null\x00 back\x08", "bell null back"),
        ("a\tb", "a b"),
        ("over\rwritten", "overwritten"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


def test_lines_are_kept_apart_and_empty_ones_dropped() -> None:
    assert clean_lines("one\n\n  two\x1b[2J\r\n\x00\nthree") == ["one", "  two", "three"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KB"),
        (1536, "1.5 KB"),
        (1024 * 1024 - 1, "1 MB"),
        (1024**2, "1 MB"),
        (5 * 1024**4, "5 TB"),
        (2000 * 1024**4, "2000 TB"),
    ],
)
def test_sizes_have_at_most_one_decimal(number: int, expected: str) -> None:
    assert size(number) == expected


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(None, "-"), (0, "0ms"), (37, "37ms"), (90_000, "90s"), (300_000, "5m"), (3_600_000, "1h"), (172_800_000, "2d")],
)
def test_exact_durations_use_the_largest_unit_that_loses_nothing(ms: int | None, expected: str) -> None:
    assert exact_duration(ms) == expected


def test_elapsed_rounds_down_so_that_59_999_ms_is_no_minute() -> None:
    assert [elapsed(ms) for ms in (999, 59_999, 60_000, 3_599_999, 3_600_000)] == [
        "999ms",
        "59.9s",
        "1m 00s",
        "59m 59s",
        "1h 00m",
    ]


def test_rates_and_counts() -> None:
    assert rate(0, 10) == "" and rate(5, 0) == ""
    assert [rate(n, 1000) for n in (999, 1000, 999_949, 999_950)] == [
        "999 rows/s",
        "1.0k rows/s",
        "999.9k rows/s",
        "1.0M rows/s",
    ]
    assert plural(1, "row") == "1 row" and plural(1_234_567, "row") == "1,234,567 rows"

"""Which folders a window of time needs."""

from __future__ import annotations

from datetime import datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pz_core.contract.connector import CursorBounds
from pz_core.contract.files import covering_paths, has_calendar_tokens


def window(lower: str | None, upper: str | None, kind: str = "timestamp") -> CursorBounds:
    return CursorBounds("at", kind, lower, False, upper, True)


@pytest.mark.parametrize(
    ("path", "lower", "upper", "paths"),
    [
        (
            "e/{yyyy}/{MM}/{dd}/*.csv",
            "2026-02-27T23:00:00.000000",
            "2026-03-01T00:00:00.000000",
            ["e/2026/02/27/*.csv", "e/2026/02/28/*.csv", "e/2026/03/01/*.csv"],
        ),
        ("{yyyy}-{MM}.csv", "2025-11-30", "2026-02-01", ["2025-11.csv", "2025-12.csv", "2026-01.csv", "2026-02.csv"]),
        ("y{yy}/*", "2099-12-31", "2100-01-01", ["y99/*", "y00/*"]),
        ("{yyyy}{MM}{dd}{HH}", "2026-01-01T22:10:00.0", "2026-01-01T23:59:59.9", ["2026010122", "2026010123"]),
        (
            "{yyyy}/{MM}/{dd}/{HH}{mm}",
            "2024-02-29T23:59:30.0",
            "2024-03-01T00:00:00.0",
            ["2024/02/29/2359", "2024/03/01/0000"],
        ),
        ("{yyyy}/{key}/{yyyy}.csv", "0999-05-01", "0999-05-01", ["0999/{key}/0999.csv"]),
        ("{yyyy}", "9999-01-01", "9999-12-31", ["9999"]),
    ],
)
def test_both_edges_of_a_window_are_covered(path: str, lower: str, upper: str, paths: list[str]) -> None:
    assert list(covering_paths(path, window(lower, upper))) == paths


@pytest.mark.parametrize("bounds", [None, window(None, None), window("2026-01-01", None), window(None, "2026-01-01")])
def test_without_two_bounds_every_folder_is_meant(bounds: CursorBounds | None) -> None:
    assert covering_paths("{yyyy}/{MM}.csv", bounds) == ("[0-9][0-9][0-9][0-9]/[0-9][0-9].csv",)


def test_a_long_window_of_minutes_is_listed_by_a_coarser_unit() -> None:
    paths = covering_paths("{yyyy}/{MM}/{dd}/{HH}/{mm}.csv", window("2026-01-01", "2026-01-31"))
    assert len(paths) == 721
    assert paths[0] == "2026/01/01/00/[0-9][0-9].csv"


def test_an_instant_is_read_in_utc() -> None:
    bounds = window("2026-01-01T00:30:00+02:00", "2026-01-01T00:30:00+02:00", "timestamptz")
    assert covering_paths("{yyyy}-{MM}-{dd}", bounds) == ("2025-12-31",)


@pytest.mark.parametrize(("path", "has"), [("a/{yyyy}", True), ("a/{key}", False), ("{y}", False), ("{{yy}}", True)])
def test_only_calendar_words_are_tokens(path: str, has: bool) -> None:
    assert has_calendar_tokens(path) is has


@given(
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)),
    st.integers(0, 90 * 24 * 60),
    st.integers(0, 90 * 24 * 60),
    st.integers(1, 5),
)
def test_the_folder_of_every_moment_of_a_window_is_among_its_paths(
    start: datetime, minutes: int, inside: int, tokens: int
) -> None:
    end = start + timedelta(minutes=minutes)
    moment = min(start + timedelta(minutes=inside), end)
    path = "/".join(["{yyyy}", "{MM}", "{dd}", "{HH}", "{mm}"][:tokens])
    paths = covering_paths(path, window(start.isoformat(), end.isoformat()))
    parts = f"{moment:%Y/%m/%d/%H/%M}".split("/")[:tokens]
    assert any(
        all(want == got or want == "[0-9][0-9]" for want, got in zip(one.split("/"), parts, strict=True))
        for one in paths
    )

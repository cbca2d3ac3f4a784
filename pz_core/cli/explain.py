"""``pz explain``: what a code means and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pz_core.cli import output
from pz_core.cli.options import json_option

if TYPE_CHECKING:
    from pz_core.codes import Code


@click.command()
@click.argument("code", required=False)
@json_option
def explain(code: str | None, as_json: bool) -> None:
    """Explain an error code, such as PZ0214; without one, list them all."""
    from pz_core.codes import CODES

    if code is None:
        rows = [CODES[key] for key in sorted(CODES)]
        if as_json:
            output.say_json([_as_dict(row) for row in rows])
        else:
            output.say_all(output.table([(r.code, r.severity, r.title) for r in rows], [6, 7]))
        return
    row = CODES.get(_normalised(code))
    if row is None:
        raise click.UsageError(f"no such code '{code}'; {_nearest(code, tuple(CODES))}")
    if as_json:
        output.say_json(_as_dict(row))
    else:
        output.say_all(
            [
                f"{row.code}  {row.title}",
                f"severity: {row.severity}, phase: {row.phase}",
                "",
                *(f"cause:  {row.cause}".splitlines()),
                *(f"remedy: {row.remedy}".splitlines()),
            ]
        )


def _normalised(code: str) -> str:
    """``pz214``, ``214`` and ``PZ0214`` are one code."""
    digits = code.strip().upper().removeprefix("PZ")
    return f"PZ{digits:0>4}" if digits.isascii() and digits.isdigit() else code.strip().upper()


def _nearest(code: str, known: tuple[str, ...]) -> str:
    import difflib

    wanted = _normalised(code)
    near = difflib.get_close_matches(wanted, known, n=5, cutoff=0.6)
    digits = wanted.removeprefix("PZ")
    if digits.isdigit():
        by_distance = sorted(known, key=lambda other: (abs(int(other[2:]) - int(digits)), other))
        near = list(dict.fromkeys([*by_distance[:3], *near]))[:5]
    return f"near it: {', '.join(near)}" if near else "pz explain lists them all"


def _as_dict(row: Code) -> dict[str, str]:
    return {
        "code": row.code,
        "title": row.title,
        "severity": row.severity,
        "phase": row.phase,
        "cause": row.cause,
        "remedy": row.remedy,
    }

"""A fault of a template while it is scanned, parsed or rendered: a code and a line, the file is added later."""

from __future__ import annotations

LITERAL_BRACES = "braces that are meant for SQL are written {{ '{{' }}, {{ '{%' }} and {{ '{#' }}"


class Fault(Exception):
    """One fault of one template.

    Args:
        message: what is wrong, in the words of the template.
        line: 1-based line of the pipeline's file.
        code: a row of the table of codes.
        hint: the way out.
        undefined: whether something named does not exist; the test ``defined`` turns such a fault into ``false``.
        structural: whether a statement was lost by it, so that names which that would have set are missing.
        known: whether the fault behind this one was reported before, so that it must not be reported again.
    """

    def __init__(
        self,
        message: str,
        line: int,
        *,
        code: str = "PZ0104",
        hint: str | None = None,
        undefined: bool = False,
        structural: bool = False,
        known: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.code = code
        self.hint = hint
        self.undefined = undefined
        self.structural = structural
        self.known = known

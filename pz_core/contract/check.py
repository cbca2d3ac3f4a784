"""The contract of a check: a query whose rows are the violations, and how to count and show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct, field

from pz_core.values import Value


class CheckDefinition(Struct, frozen=True):
    """A check entry of a sidecar, read and found well-formed.

    Args:
        kind: registered name of the check.
        columns: the columns it looks at, which make part of the node's name.
        options: everything else that belongs to its identity.
        name: own name of a custom check, instead of kind and columns in the node's name.
    """

    kind: str
    columns: tuple[str, ...] = ()
    options: Mapping[str, Value] = field(default_factory=dict)
    name: str | None = None


class CheckQuery(Struct, frozen=True):
    """How the engine asks.

    Args:
        count: a SELECT of one row with the number of violations in its first column.
        sample: a SELECT of the rows to show; run only where samples are allowed, cut at ``sample_limit`` rows.
        detail: a SELECT of one row to show always (an aggregate: the count, the newest instant and the limit).
        unit: what is counted: ``rows``, ``key groups``.
    """

    count: str
    sample: str | None = None
    detail: str | None = None
    unit: str = "rows"
    sample_limit: int = 5


class CheckFault(ValueError):
    """A check entry is malformed; the text says how. Raised by :meth:`Check.define`."""


@runtime_checkable
class DescribedCheck(Protocol):
    """A check that also says what its body looks like, so that an editor completes it and marks faults.

    ``body_schema`` is a JSON Schema of the body; ``sample_values`` is added to every mapping in it.
    """

    body_schema: ClassVar[Mapping[str, Any]]


class Check(Protocol):
    """A rule on a pipeline's rows. The class is what a registration's target names."""

    name: ClassVar[str]

    def define(self, body: Value) -> CheckDefinition:
        """Read a check entry's body (``sample_values`` already taken out).

        Raises:
            CheckFault: if it is malformed (PZ0113).
        """

    def query(self, definition: CheckDefinition, relation: str, now: datetime) -> CheckQuery:
        """The questions to ask of ``relation`` (a quoted name); ``now`` is UTC, read when the check starts."""

"""What connectors may offer so that work is not done twice: tokens of feeds, deliveries that go on midway.

Both are optional and found by the shape of what a connector opens. The engine keeps what they say; a connector keeps
nothing between two calls.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pz_core.contract.connector import ConnectorError, Partition, ReadSpec
from pz_core.errors import Where


@runtime_checkable
class FeedSource(Protocol):
    """A source whose place owns a continuation token (:meth:`~pz_core.contract.connector.Source.natural_shape`).

    A feed is read in one partition. The read gets the token of the run before in ``spec.token``, byte for byte as it
    was given; ``None`` means from the beginning.
    """

    def next_token(self, spec: ReadSpec, partition: Partition) -> str | None:
        """Where the next read goes on; asked once, after all batches of the read, and never after a failure.

        Returns:
            Any text; nobody but this connector looks into it. ``None`` leaves the stored one as it is.
        """


class TokenRefused(ConnectorError):
    """The place no longer goes on from the stored token: it has expired, or belongs to something else.

    Args:
        subject: ``connection.entity``, or the entity's name.
        reason: why, without the token.
        where: the place it speaks of.
        cause: the exception behind it.
    """

    def __init__(
        self, subject: str, reason: str, *, where: Where | None = None, cause: BaseException | None = None
    ) -> None:
        super().__init__(
            f"{subject}: the stored token is no longer taken: {reason}",
            code="PZ0537",
            where=where,
            hint="pz run --full-refresh drops the token and reads from the beginning; what came and went since the "
            "last run may be missing from the place",
            cause=cause,
        )


@runtime_checkable
class CheckpointingSession(Protocol):
    """A write session whose target confirms rows on the way, and keeps them when the session is aborted.

    The rows of a delivery come in one order that their content alone decides, so that "the first n rows" means the
    same in a later attempt. Needs the ability ``checkpointable_writes``.
    """

    def resume(self, rows: int) -> bool:
        """Asked before the first batch, where an earlier attempt left confirmed rows of the same delivery.

        Args:
            rows: the rows from the start that were confirmed, at least 1.

        Returns:
            Whether the session goes on after them; the batches then begin there. Where it does not, they begin at
            the first row, and the session must see to what is already in the target.
        """

    def acknowledged(self) -> int:
        """Rows of the delivery, counted from its start and a resumed part included, that the target will not lose."""

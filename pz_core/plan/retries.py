"""The retry policy of a node: entity side, then connection, then the defaults, field by field."""

from __future__ import annotations

from pz_core.compile.model import SinkNode, SourceNode
from pz_core.errors import PzError
from pz_core.plan.model import RetryPolicy
from pz_core.project.model import Project, RetryConfig

_FIELDS = ("max_attempts", "base_delay_ms", "max_delay_ms")


def retry_policy(project: Project, node: SourceNode | SinkNode) -> RetryPolicy:
    """The effective policy of a source or a sink.

    Raises:
        PzError: PZ0121 if the levels together give a longest delay that is shorter than the first one.
    """
    levels: tuple[RetryConfig | None, ...] = (node.retry, project.connections[node.connection].retry)
    default = RetryPolicy()
    chosen = {field: _first(levels, field, getattr(default, field)) for field in _FIELDS}
    policy = RetryPolicy(**chosen)
    if policy.max_delay_ms < policy.base_delay_ms:
        raise PzError(
            "PZ0121",
            f"{node.name}: retry max_delay {policy.max_delay_ms}ms is shorter than base_delay {policy.base_delay_ms}ms "
            "once the entity's retry, the connection's and the defaults (1s, 30s) are put together",
            where=node.where,
            hint="raise max_delay or lower base_delay",
        )
    return policy


def _first(levels: tuple[RetryConfig | None, ...], field: str, default: int) -> int:
    for level in levels:
        value = getattr(level, field, None)
        if value is not None:
            return int(value)
    return default

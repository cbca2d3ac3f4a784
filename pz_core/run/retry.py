"""How long to wait before the next attempt of a node."""

from __future__ import annotations

import random
from collections.abc import Callable

from pz_core.plan.model import RetryPolicy


def delay_ms(
    policy: RetryPolicy,
    failures: int,
    retry_after: float | None = None,
    draw: Callable[[], float] = random.random,
) -> int:
    """Milliseconds to wait after the ``failures``-th failed attempt.

    The first delay doubles with every failure up to the policy's cap; what the place itself asked for replaces it,
    under the same cap. Then comes a spread of a quarter either way, so that nodes do not return all at once.

    Args:
        policy: of the node.
        failures: failed attempts so far, 1 or more.
        retry_after: seconds that the place asked for.
        draw: a number in [0, 1), for tests.
    """
    if retry_after is not None and retry_after >= 0:
        wait: float = retry_after * 1000
    else:
        wait = policy.base_delay_ms * 2 ** min(failures - 1, 62)
    return round(min(wait, policy.max_delay_ms) * (0.75 + 0.5 * draw()))

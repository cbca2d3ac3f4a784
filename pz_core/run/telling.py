"""Events that are made of what nodes and breakers say of themselves."""

from __future__ import annotations

from collections.abc import Callable

from pz_core.contract.events import BreakerStateChanged, Event, NodeCompleted, camel
from pz_core.run.breaker import State
from pz_core.run.results import NodeResult
from pz_core.run.runid import now_stamp


def node_completed(result: NodeResult, run_id: str) -> NodeCompleted:
    """The event of a node that has ended."""
    return NodeCompleted(
        at=now_stamp(),
        run_id=run_id,
        node_id=result.id,
        kind=result.kind,
        name=result.name,
        status=result.status,
        rows=result.rows,
        duration_ms=result.duration_ms,
        error_code=result.error.code if result.error else None,
        error_message=result.error.message if result.error else None,
        timings=result.timings,
        provenance=result.provenance,
        partitions=result.partitions,
        delivery=None if result.delivery is None else {camel(k): v for k, v in result.delivery.items()},
        caught_up=result.caught_up,
        accounting=result.accounting,
        cdc=result.cdc,
    )


def breaker_listener(
    name: str, run_id: str, publish: Callable[[Event], None]
) -> Callable[[State, State, str, int], None]:
    """Publishes what becomes of the breaker of a connection."""

    def changed(old: State, new: State, trigger: str, length: int) -> None:
        publish(
            BreakerStateChanged(
                at=now_stamp(),
                run_id=run_id,
                instance=f"conn:{name}",
                old_state=old,
                new_state=new,
                trigger=trigger,
                cool_down_ms=length,
            )
        )

    return changed

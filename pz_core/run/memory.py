"""What a run remembers of earlier runs: the project's state, opened before any node and written after all of them."""

from __future__ import annotations

from pz_core.compile.model import Graph, SourceNode
from pz_core.errors import Notice
from pz_core.plan.connectors import Connectors
from pz_core.plugins import Registry
from pz_core.run.drift import DriftGate
from pz_core.run.faults import unexpected
from pz_core.run.feeds import Tokens
from pz_core.run.incremental import IncrementalReads
from pz_core.run.ledger import Ledgers
from pz_core.run.state import Watermarks, open_state, state_notices


class RunMemory:
    """The open state of one run.

    Args:
        watermarks: as they were when the run began.
        tokens: the same of feeds, where the run has any.
        drift: who compares columns, where the project asks for it.
        notices: what was found unreadable.
    """

    def __init__(
        self, watermarks: Watermarks, tokens: Tokens | None, drift: DriftGate | None, notices: tuple[Notice, ...]
    ) -> None:
        self.watermarks = watermarks
        self.tokens = tokens
        self.drift = drift
        self.notices = notices

    @classmethod
    def open(
        cls,
        graph: Graph,
        effective: frozenset[str],
        registry: Registry,
        run_id: str,
        *,
        needed: bool = False,
        feeds: bool = False,
        full_refresh: bool = False,
    ) -> RunMemory | None:
        """Open the state and read it, if the run needs it or the project says where it is; ``None`` if not.

        Args:
            graph: of the project.
            effective: ids of the run's nodes.
            registry: where plugins are found.
            run_id: of the run.
            needed: whether something else than the nodes asks for it.
            feeds: whether tokens are read or written.
            full_refresh: whether feeds are read from the beginning.

        Raises:
            PzError: PZ0125, PZ0518, PZ0519, or a fault of the machine.
        """
        project = graph.project
        sources = [node for node in graph.nodes if isinstance(node, SourceNode) and node.id in effective]
        looks = project.on_source_drift != "ignore" and any(not node.columns for node in sources)
        resumes = any(node.incremental is not None for node in sources)
        if not (resumes or looks or needed or feeds or project.state.declared):
            return None
        backend = open_state(project.state, project.root, registry)
        try:
            watermarks = Watermarks(backend, run_id)
            tokens = Tokens(backend, run_id, full_refresh=full_refresh) if feeds else None
            drift = DriftGate(backend, project.on_source_drift) if looks else None
        except OSError as error:
            backend.close()
            raise unexpected(error) from error
        except BaseException:
            backend.close()
            raise
        return cls(watermarks, tokens, drift, state_notices(backend))

    def reads(
        self, graph: Graph, registry: Registry, *, full_refresh: bool, started_at: str, ledgers: Ledgers
    ) -> IncrementalReads:
        """How the run reads its incremental datasets."""
        connectors = Connectors(graph.project, registry)
        return IncrementalReads(
            graph,
            self.watermarks,
            full_refresh=full_refresh,
            started_at=started_at,
            capabilities=lambda connection: connectors.target(connection).capabilities,
            limit=ledgers.limit,
        )

    def close(self) -> None:
        """Close the state; all that matters has been written by then."""
        try:
            self.watermarks.close()
        except Exception:  # noqa: BLE001 - nothing depends on it any more
            return

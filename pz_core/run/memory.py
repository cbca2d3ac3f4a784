"""What a run remembers of earlier runs: the project's state, opened before any node and written after all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pz_core.compile.model import Graph, SourceNode
from pz_core.contract.state import RunStore, StateBackend
from pz_core.errors import Notice
from pz_core.plan.connectors import Connectors
from pz_core.plugins import Registry
from pz_core.project.model import StateConfig
from pz_core.project.state_config import PREFIX
from pz_core.run.drift import DriftGate
from pz_core.run.faults import unexpected
from pz_core.run.feeds import Tokens
from pz_core.run.incremental import IncrementalReads
from pz_core.run.ledger import Ledgers
from pz_core.run.state import Watermarks, open_state, state_notices
from pz_core.run.store import runs_of


class RunMemory:
    """The open state of one run.

    Args:
        watermarks: as they were when the run began.
        tokens: the same of feeds, where the run has any.
        drift: who compares columns, where the project asks for it.
        notices: what was found unreadable.
        store: where the run is recorded beside ``.pz/runs``, ``None`` if nowhere.
    """

    def __init__(
        self,
        watermarks: Watermarks,
        tokens: Tokens | None,
        drift: DriftGate | None,
        notices: tuple[Notice, ...],
        store: RunStore | None = None,
    ) -> None:
        self.watermarks = watermarks
        self.tokens = tokens
        self.drift = drift
        self.notices = notices
        self.store = store

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
        if not (resumes or looks or needed or feeds or project.state.declared or project.state.artifacts):
            return None
        backend = open_state(project.state, project.root, registry)
        try:
            store = runs_of(backend, project.state)
            watermarks = Watermarks(backend, run_id)
            tokens = Tokens(backend, run_id, full_refresh=full_refresh) if feeds else None
            drift = DriftGate(backend, project.on_source_drift) if looks else None
        except OSError as error:
            backend.close()
            raise unexpected(error) from error
        except BaseException:
            backend.close()
            raise
        told = [*_place(backend, project.state), *state_notices(backend)]
        incremental = [node.dataset for node in sources if node.incremental is not None]
        told += _foreign(incremental, watermarks.project_of, project.name)
        if tokens is not None:
            told += _foreign([node.dataset for node in sources], tokens.project_of, project.name)
        return cls(watermarks, tokens, drift, tuple(told), store)

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


def _place(backend: StateBackend, config: StateConfig) -> list[Notice]:
    """Where the state is, if that is no file of this machine, and what of it the environment said."""
    if config.backend in ("local", "sqlite"):
        return []
    said = ", ".join(f"{PREFIX}{key.upper()}" for key in sorted(config.from_env))
    return [Notice("note", f"state backend: {backend.describe()}{f' (from {said})' if said else ''}")]


def _foreign(datasets: Sequence[str], project_of: Callable[[str], str | None], own: str) -> list[Notice]:
    """What a run goes on from though another project stored it: two projects in one place take rows from each other."""
    found = {dataset: project_of(dataset) for dataset in datasets}
    return [
        Notice(
            "warning",
            f"{dataset}: what is stored of it was written by project '{project}', and this is '{own}': the read goes "
            "on from there",
            hint="if that is another project, give each a schema of its own under state:; after a renaming all is well",
        )
        for dataset, project in found.items()
        if project and project != own
    ]

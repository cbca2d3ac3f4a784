"""Files to a typed model: YAML with positions, interpolation, sidecars."""

from __future__ import annotations

from pz_core.project.loader import Loaded, load_project
from pz_core.project.state_only import load_state_config

__all__ = ["Loaded", "load_project", "load_state_config"]

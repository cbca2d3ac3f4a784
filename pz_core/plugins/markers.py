"""The two pluggy markers of the project ``pz``."""

from __future__ import annotations

import pluggy

hookspec = pluggy.HookspecMarker("pz")
hookimpl = pluggy.HookimplMarker("pz")

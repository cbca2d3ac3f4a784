"""Hookspecs, discovery, and what is checked when a plugin registers."""

from __future__ import annotations

from pz_core.plugins.registry import Offer, Registry

__all__ = ["Offer", "Registry"]

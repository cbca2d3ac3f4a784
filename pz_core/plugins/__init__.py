"""Hookspecs, discovery, and what is checked when a plugin registers."""

from __future__ import annotations

from pz_core.plugins.registry import Offer, PluginRow, Registry

__all__ = ["Offer", "PluginRow", "Registry"]

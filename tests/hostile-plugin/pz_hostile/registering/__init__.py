"""Modules that register wrongly. Each is named by entry points of its own."""

"""Decides for every edge, offline: tier, pushdown, guarantee, budget."""

"""Connectors in a process and an environment of their own (``isolation: process``).

:mod:`environment` knows the folder, :mod:`process` the child, :mod:`proxy` gives the connector class that stands for
the one in the child. :mod:`start` and :mod:`child` run there.
"""

"""Packages: lock, resolve, verify. Nothing here knows how a project is read: it is told what projects list."""

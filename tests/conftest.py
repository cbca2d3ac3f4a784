"""Profiles of the property tests: a small one here, large counts with PZ_DEEP=1 (`make deep`)."""

from __future__ import annotations

import os

import hypothesis

hypothesis.settings.register_profile("small", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("deep" if os.environ.get("PZ_DEEP") else "small")

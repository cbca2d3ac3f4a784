"""Profiles of the property tests: a small one here, large counts with PZ_DEEP=1 (`make deep`)."""

from __future__ import annotations

import os
import signal

import hypothesis

hypothesis.settings.register_profile("small", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("deep" if os.environ.get("PZ_DEEP") else "small")

# A runner in the background may have these ignored (nohup does), and pz rightly leaves an ignored signal alone.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

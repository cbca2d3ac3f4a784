"""``python -m pz_core`` is ``pz``."""

from __future__ import annotations

from pz_core.cli.main import main

if __name__ == "__main__":
    main()

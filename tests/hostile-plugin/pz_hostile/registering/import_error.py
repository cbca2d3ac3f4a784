"""Cannot be imported."""

raise OSError("a library of the system is missing")

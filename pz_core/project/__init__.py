"""Files to a typed model: YAML with positions, interpolation, sidecars."""

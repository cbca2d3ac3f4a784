"""The pz connector."""

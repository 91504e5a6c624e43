"""Central methods of others beside ours: for research, never for a release."""

"""Benchmarks: each prints its figures and the ratio to a peer measured in the same run."""

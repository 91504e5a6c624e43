"""Flower carries the messages of a study: a ServerApp at the hub, a ClientApp at every site."""

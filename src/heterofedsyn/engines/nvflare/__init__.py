"""NVFlare carries the messages of a study: a controller at the hub, an executor at every site."""

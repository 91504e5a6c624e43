"""Messages carried by NVFlare: a controller at the hub, an executor at every site."""

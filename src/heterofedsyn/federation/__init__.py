"""A real federation set up: certificates, hardened kits, units, and the checks of a site."""

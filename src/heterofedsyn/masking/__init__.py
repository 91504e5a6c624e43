"""Hiding integers in sums: masks that cancel, shares of what opens them, and what is signed.

Pure functions of bytes: nothing here knows a query, a file or a network. The hub may use all of it
but `sealing`, which needs a site's private key.
"""

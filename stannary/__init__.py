"""Stannary: the protocol that every role agrees on. Roles import from here; this package imports none of them."""

PROTOCOL_VERSION = 1
"""Version of every encoding in this package; carried by pools and leases."""

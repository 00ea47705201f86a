"""The validator: re-checks submissions and votes on chain."""

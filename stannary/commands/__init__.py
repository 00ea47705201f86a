"""The commands that belong to no role: wallets, providers, pools, a chain for development. One file a noun."""

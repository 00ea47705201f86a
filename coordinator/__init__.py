"""The coordinator: matches work to workers, keeps the files, mirrors the chain, posts what it waits for.

It decides no money, holds no payout, loads no model; what it says can be recomputed from the chain and the files.
"""

"""The coordinator: matches slots to workers and serves files. It helps; the chain decides."""

"""The per-rank wrapper: standard library only, and light, because every rank of every run starts through it."""

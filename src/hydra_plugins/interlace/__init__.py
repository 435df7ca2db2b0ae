"""Hydra's view of Interlace: a sweeper and a search path."""

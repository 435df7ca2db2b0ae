"""Is this node fit to measure on: facts read once, and pure rules over them; its modules are imported by name."""

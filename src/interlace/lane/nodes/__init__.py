"""The nodes of a lane: the one it runs on, and the others, each spoken to through an agent of its own."""

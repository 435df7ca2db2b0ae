"""The nodes of a lane: the one it runs on, and the others, each spoken to through an agent of its own.

The agents start the ranks of their nodes themselves: a step of SLURM for every run would be another way to start, watch
and end them than a lane of one node has, would cost what SLURM takes to make a step, and could wait for it.
"""

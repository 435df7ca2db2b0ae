"""The ACT job: a policy of 51.6 million parameters under DDP, whose every speed-up is a switch. Runs inside the ranks.

Read `train.py` first: it is the example of a trainer that is instrumented for Interlace.
"""

"""`python -m interlace.workloads.act`: one rank."""

from interlace.workloads.act.train import main

main()

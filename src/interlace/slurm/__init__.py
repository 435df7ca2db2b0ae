"""What Slurm says and wants to hear: texts read by pure functions, and few questions to its programs (`queue`)."""

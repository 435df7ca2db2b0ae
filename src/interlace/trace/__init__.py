"""What profiler traces say of a step: how long the GPU worked, what it waited for, and what follows from it."""

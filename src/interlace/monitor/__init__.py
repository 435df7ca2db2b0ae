"""What the GPUs and the CPUs of the node did during a run. Import its modules by name; this stays light."""

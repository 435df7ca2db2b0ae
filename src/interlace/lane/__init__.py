"""One node at work: the loop over runs, one run from its gate to its record, and what is read out of it."""

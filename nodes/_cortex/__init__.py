"""The debating graph of CortexDebate and the formula that weighs its edges."""

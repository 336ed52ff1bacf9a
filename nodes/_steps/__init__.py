"""The steps of a debate, one per file, each as a plain function and as a node."""

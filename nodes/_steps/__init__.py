"""The steps of a debate, one a file: each as a plain function and as a node."""

"""Records of benchmarks: how their files are read, and what their answers are measured by."""

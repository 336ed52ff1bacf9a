"""The identity of a run: two runs with the same identity share their samples."""

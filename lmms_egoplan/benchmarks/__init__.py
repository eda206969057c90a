"""Score benchmarks: one package per paper, shared code, and the registry of all benchmarks."""

"""New questions of the benchmarks' forms, built from other data."""

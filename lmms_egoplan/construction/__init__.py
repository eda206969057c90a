"""Build new questions in the benchmarks' formats from other data."""

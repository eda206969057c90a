"""Statistics that benchmarks, judges and reports share: intervals, comparisons and agreement."""

"""ActPlan-1K's part of a report."""

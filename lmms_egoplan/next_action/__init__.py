"""Questions which action comes next, behind a video of the progress of a task: what benchmarks that ask them share."""

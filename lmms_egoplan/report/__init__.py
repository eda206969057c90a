"""Runs of both harnesses beside what the papers published: tables, figures and a page to look into.

From a results file to a sentence of the report:

1. `page.build_report` is called with the files;
2. `runs.read_runs` reads the runs,
3. `runs.with_samples` their samples;
4. `scores.check` recomputes their scores;
5. `benchmark.read_reports` splits them by version, and makes each benchmark's `BenchmarkReport`,
6. which reads answers by `scores.read_tasks`;
7. `BenchmarkReport.section` makes headlines by `BenchmarkReport.headline`,
8. differences of runs by `BenchmarkReport.difference`,
9. and sentences by `comparisons.finding`;
10. `page.write_page` prints them.
"""

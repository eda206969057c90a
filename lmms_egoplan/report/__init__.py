"""Report runs of both harnesses next to the papers' published results: tables, figures and a page.

The steps from a results file to a sentence of the report:

1. `build.build_report` is called with the files.
2. `runs.read_runs` reads the runs.
3. `runs.with_samples` reads their samples.
4. `recompute.check` recomputes their scores.
5. `benchmarks.read_reports` splits the runs by version, and makes each benchmark's
   `BenchmarkReport`.
6. `answers.read_tasks` reads the answers.
7. `BenchmarkReport.headline` computes the main scores.
8. `BenchmarkReport.difference` compares two runs.
9. `findings.finding` writes the sentences.
10. `page.write_page` writes the page.
"""

"""Report runs of both harnesses next to the papers' published results: tables, figures and a page.

The steps from a results file to a sentence of the report:

1. `build.build_report` is called with the files.
2. `runs.read_runs` reads the runs.
3. `joining.join_runs` joins the results files of each model.
4. `runs.with_samples` reads their samples.
5. `recompute.check` recomputes their scores.
6. `benchmarks.read_reports` splits the runs by version, and makes each benchmark's
   `BenchmarkReport`.
7. `answers.read_tasks` reads the answers.
8. `BenchmarkReport.headline` computes the main scores.
9. `BenchmarkReport.difference` compares two runs.
10. `findings.finding` writes the sentences.
11. `page.write_page` writes the page.
"""

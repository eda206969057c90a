"""Ask language models and judges, with concurrency, retries, caching and accounting in one client."""

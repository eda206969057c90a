"""Ask language models and judges; one client owns concurrency, retries, caching and accounting."""

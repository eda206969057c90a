"""One client of language models that owns concurrency, retries, caching and accounting; judges that rate answers."""

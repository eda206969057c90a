"""Runs of both harnesses beside what the papers published: tables, figures and a page to look into."""

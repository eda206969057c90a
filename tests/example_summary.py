"""A summary with the fields that `load_summary` guarantees."""

SUMMARY = {
    "prepared": "2025-01-01T00:00:00+00:00",
    "split_size": 2,
    "questions": 2,
    "fingerprint": "0123abcd",
    "missing": [],
}

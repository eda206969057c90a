"""EgoThink's part of a report."""

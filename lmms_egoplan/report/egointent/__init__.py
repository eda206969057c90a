"""EgoIntent's part of a report."""

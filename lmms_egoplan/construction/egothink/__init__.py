"""Build questions in EgoThink's format from first-person videos (arXiv 2311.15596, sec. 3.2)."""

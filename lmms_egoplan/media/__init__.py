"""Read, check and write videos, frames and images, and show them to a model."""

"""Videos, frames and images: reading, checking and writing them, and showing them to a model."""

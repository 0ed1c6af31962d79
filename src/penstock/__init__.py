"""From raw image data to a trained vision model."""

__version__ = "0.1.0"

"""A headless participant of Weei training jobs."""

__version__ = "0.1.0"

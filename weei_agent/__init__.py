"""A headless participant of Weei training jobs."""

from weei_client import __version__ as __version__

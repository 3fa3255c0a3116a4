"""The command line of coordinators: `weei`."""

from weei_client import __version__ as __version__

"""How programs of people (`weei-agent`, `weei`) talk to one server: requests that are made again, transfers that go on
where they were cut."""

__version__ = "0.1.0"

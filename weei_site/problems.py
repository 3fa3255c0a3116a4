"""The shape of an error over HTTP, for the middleware; the bytes app uses the same function."""

from weei_core.problems import problem_body

__all__ = ["problem_body"]

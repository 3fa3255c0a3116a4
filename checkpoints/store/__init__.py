"""Where the bytes of artifacts lie: files of this machine or a bucket of S3, behind one contract."""

from checkpoints.store.base import ArtifactStore
from checkpoints.store.factory import store

__all__ = ["ArtifactStore", "store"]

"""The settings of an installation whose channel layer is away, while its broker and cache are there."""

from weei_site.settings import *  # noqa: F403
from weei_site.settings import RUN_DIR

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [f"unix://{RUN_DIR / 'nobody-listens-here.sock'}"]},
    }
}

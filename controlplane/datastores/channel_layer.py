"""Channel layer: frames for open pages, over Redis's pub/sub (logical database 1), with time limits."""

from collections.abc import Sequence
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer

from controlplane.datastores.redis import async_pool_arguments


class ChannelLayer(RedisPubSubChannelLayer):  # type: ignore[misc]  # channels has no types
    """The layer of channels_redis, whose connections know the process's circuit breaker."""

    def __init__(self, hosts: Sequence[str], **options: Any) -> None:
        super().__init__(hosts=[async_pool_arguments(url) for url in hosts], **options)

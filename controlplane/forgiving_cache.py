"""Django's Redis cache that treats an absent Redis as an empty cache: a write is never refused for it."""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


class ForgivingRedisCache(RedisCache):
    def _or_nothing(self, nothing: Any, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return operation(*args, **kwargs)
        except RedisError as error:
            logger.debug("cache unavailable: %s", error)
            return nothing

    def add(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._or_nothing(False, super().add, *args, **kwargs))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._or_nothing(default, super().get, key, default, version)

    def set(self, *args: Any, **kwargs: Any) -> None:
        self._or_nothing(None, super().set, *args, **kwargs)

    def touch(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._or_nothing(False, super().touch, *args, **kwargs))

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self._or_nothing(False, super().delete, *args, **kwargs))

    def clear(self) -> bool:
        return bool(self._or_nothing(False, super().clear))

"""Rate limit: at most so many requests in ten seconds, by user or address. An absent Redis stops nobody."""

import time
from typing import TYPE_CHECKING

from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from controlplane.datastores import redis
from routing.contract.trusted_proxies import client_group

if TYPE_CHECKING:  # REST framework imports this module while it imports its views
    from rest_framework.views import APIView

WINDOW_S = 10
SIGNED_IN = 1500
ANONYMOUS = 100
KEY = "sy:throttle:{who}:{window}"


class FixedWindowThrottle(BaseThrottle):
    """A count in a fixed window: one round trip, whatever the limit."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        user = request.user
        who, limit = (
            (f"user:{user.pk}", SIGNED_IN)
            if user.is_authenticated
            else (f"address:{client_group(request.META.get('REMOTE_ADDR', ''))}", ANONYMOUS)
        )
        try:
            return _count(who) <= limit
        except RedisError:
            return True

    def wait(self) -> float:
        return WINDOW_S - time.time() % WINDOW_S


def _count(who: str) -> int:
    key = KEY.format(who=who, window=int(time.time() / WINDOW_S))
    pipeline = redis.client().pipeline(transaction=False)
    pipeline.incr(key)
    pipeline.expire(key, 2 * WINDOW_S)
    return int(pipeline.execute()[0])

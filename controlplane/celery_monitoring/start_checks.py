"""Start check of the Celery worker and beat: not in another installation's Redis, nor later."""

import sys

from django.db import connections

from controlplane.publishing import installation, redis_owner
from controlplane.publishing.installation import NotOurRedis


def refuse_foreign_redis() -> None:
    """Ends the process with status 1 and one sentence, now or as soon as Redis is there."""
    try:
        installation.check_at_start()
        redis_owner.watch(ends=True)
    except NotOurRedis as refused:
        sys.exit(str(refused))
    finally:
        connections.close_all()  # a pool of processes must not inherit one

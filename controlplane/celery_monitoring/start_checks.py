"""Start check of the Celery worker and beat: not in another installation's Redis."""

import sys

from django.db import connections

from controlplane.publishing import installation
from controlplane.publishing.installation import NotOurRedis


def refuse_foreign_redis() -> None:
    """Ends the process with status 1 and one sentence."""
    try:
        installation.check_at_start()
    except NotOurRedis as refused:
        sys.exit(str(refused))
    finally:
        connections.close_all()  # a pool of processes must not inherit one

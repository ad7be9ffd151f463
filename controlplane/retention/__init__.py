"""How long events and audit entries are kept: the Celery task that beat starts each hour."""

"""Django's LOGGING setting: one line each on standard error, as JSON or as text."""

from typing import Any

from routing.contract.log_format import Format

FORMATTERS = {
    "json": {"()": "routing.contract.log_format.JsonLineFormatter", "process": "manage"},
    "text": {"()": "routing.contract.log_format.TextLineFormatter", "process": "manage"},
}


def configuration(level: str, form: Format) -> dict[str, Any]:
    """For ``logging.config.dictConfig``."""
    passed_on = {"handlers": [], "level": "INFO", "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": FORMATTERS[form]},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "django": passed_on,
            "django.server": passed_on,
            # The access log has every 4xx already.
            "django.request": {"level": "ERROR"},
            "celery": {"level": "WARNING"},
            # One line for every task, several a second.
            "celery.app.trace": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
            # The server's own lines in our form; of requests we write our own.
            "uvicorn": passed_on,
            "uvicorn.error": passed_on,
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }

"""The web process: middleware, security headers, static files, login lockout, ``/livez`` and ``/readyz``."""

"""The web process: middleware, security and forwarded headers, static files, ``/livez`` and ``/readyz``."""

"""TLS, and by what both ends of a connection know each other: certificates, authorities, bearer tokens.

Towards replicas: whose certificates are trusted, the token that a replica wants, and what went wrong in
words. ``secret_loader`` reads what a reference leads to, ``reload_cache`` reads it again when its file was
replaced. Proxies and the probes of both planes share all of it, so that what a probe accepts a proxy accepts
too. Verification cannot be turned off: chain and name are checked by OpenSSL in every handshake. Towards
clients: the proxy's own certificate.
"""

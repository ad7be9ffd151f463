"""TLS towards replicas: whose certificates are trusted, and what went wrong in words.

Proxies and the probes of both planes share it, so that what a probe accepts a proxy accepts too. Verification
cannot be turned off: chain and name are checked by OpenSSL in every handshake.
"""

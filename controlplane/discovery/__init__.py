"""Service discovery: replicas that a source lists (DNS, Kubernetes, a file, their own lease).

What follows from a listing is decided by pure functions: :mod:`.reconciler`, :mod:`.leases`.
"""

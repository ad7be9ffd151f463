"""Configuration and telemetry of a worker: routing tables in, reports out, and the sticky lookup.

``table_applier`` applies a table from any source. The rest speaks with Redis, which may be away at any time
without costing a request, or through the master with this host's other workers (``sticky_lookup``).
"""

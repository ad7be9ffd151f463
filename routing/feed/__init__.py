"""What a worker hears and tells while requests run: tables in, reports out, and which replica keeps what.

``table_feed`` applies a table, whoever brought it. The rest speaks with Redis, which may be away at any time
without costing a request, or through the parent with this host's other workers (``kept_elsewhere``).
"""

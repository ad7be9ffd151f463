"""Limits: of connections, of a request's head and body, and the answer to a key over its rate limit."""

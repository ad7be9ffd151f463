"""Limits: of connections, of a request's head and body, and the 429 for a key over its rate limit."""

"""Continuation (migration of a stream): an answer that broke off, continued by another replica. Pure."""

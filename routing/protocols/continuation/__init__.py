"""Continuation (migration of a stream): an answer that broke off, said on by another replica. Pure."""

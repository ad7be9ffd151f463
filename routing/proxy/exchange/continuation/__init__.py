"""Continuation: a stream whose replica is lost, silent or drained is continued by another replica."""

"""Continuation: a stream whose replica is lost, silent or drained is said on by another replica."""

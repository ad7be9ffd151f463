"""Signals: what verbs announce to the packages above them, which connect when Django starts."""

from django.dispatch import Signal

replicas_unprobed = Signal()
"""After a commit. ``uids``: replicas of whose health nothing is known."""

"""Kinds of sources: where the replicas of a fleet are listed. One file each; :mod:`.registry` has all."""

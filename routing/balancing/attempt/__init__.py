"""Attempts: one request at one replica, counted when it begins, settled exactly once with its outcome.

``attempt`` has the usual one and its modes: short deadline, uploading, monitored. ``tunnel`` is an attempt
that has become a tunnel (upgrade). ``predicted_attempt`` is a sample of which it was predicted how long it
takes.
"""

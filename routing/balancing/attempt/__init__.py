"""One request at one replica: counted when it begins, settled exactly once with its outcome.

``attempt`` is the usual one, with its modes: short deadline, uploading, monitored. ``tunnel`` is an attempt
that has become a connection on which both sides speak (upgrade).
"""

"""One request at one replica: counted when it begins, settled exactly once, with how it ended.

``attempt`` is the usual one, and its modes while it runs: those whose client is impatient, still sends, or is
asked about in case of success. ``tunnel`` is one that has become a connection, on which both sides speak.
"""

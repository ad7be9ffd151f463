"""One request at one replica: counted when it begins, settled exactly once, with how it ended.

``attempt`` is the usual one. Some become another kind while they run, each told in a file of its own: those
whose client is impatient, still sends, speaks through a tunnel, or is asked about in case of success.
"""

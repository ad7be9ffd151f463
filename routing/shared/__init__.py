"""What the workers of one host share, so that a limit or a load holds for all of them.

A block of memory in which each writes its own cells and reads the others' (``shm_counters``), limits and
windows that are kept by such sums, what each client key uses of them, how one worker wakes another, and which
replica keeps a stored response (``sticky_ids``).
``quota_share`` is the part of a limit that is this proxy's where several serve the same replicas.
"""

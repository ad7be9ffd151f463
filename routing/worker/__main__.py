"""Entry of a worker process, which the master starts.

``python -m routing.worker CONTROL LISTENER COUNTS NUMBER PARENT [WAKE …]``: three inherited descriptors, the
worker's number, the master's pid, and the descriptors by which workers wake each other. Everything else comes
in the first message over CONTROL.
"""

from routing import compiled

if __name__ == "__main__":
    compiled.use()
    # Only now: what it imports is compiled, where it can be.
    from routing.worker.worker import main

    main()

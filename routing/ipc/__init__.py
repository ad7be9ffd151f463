"""Inter-process communication: what the processes of one host say to each other.

The control channel and the requests that wait on it for a reply; and what each process needs to live beside
the others: file descriptors, log lines and the access log, and waiting for several things at once.
"""

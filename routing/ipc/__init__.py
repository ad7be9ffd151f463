"""Inter-process communication between the processes of one host.

The control channel and the requests that wait on it for a reply. Also helpers of every process: file
descriptor limits, log lines, the access log, and waiting for several things at once.
"""

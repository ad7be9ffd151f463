"""What parent and workers have in common as processes, whatever they do with requests.

The channel between them and the questions asked on it, file descriptors, log lines and the access log, and
waiting for several things at once.
"""

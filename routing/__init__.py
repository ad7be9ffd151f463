"""The data plane: what happens to a request.

Nothing in here imports Django, Celery, REST framework or Channels, and nothing in here imports
``controlplane`` or ``dashboard``. A proxy runs on this package alone.
"""

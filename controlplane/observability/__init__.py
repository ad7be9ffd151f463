"""What runs itself, seen from outside: metrics, probes of processes, request ids, the system page.

``process`` says which process this is; ``metrics`` names every number, ``listener`` serves them with
``/livez`` and ``/readyz``; ``web``, ``requests`` and ``sockets`` watch the web process, ``tasks`` the Celery
worker, ``scheduler`` beat; ``signs`` says in Redis that a process lives, and ``system`` gathers it all.
"""

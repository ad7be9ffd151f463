"""The system page's content: every part of Switchyard, how it is in words, and what to do about it.

Facts are read from Redis and the database (:mod:`.fact_reader`), assessed by pure functions
(:mod:`.components`, :mod:`.processes`, :mod:`.proxies`), and put together (:mod:`.report`).
"""

"""The system page's content: every part of Switchyard, how it is in words, and what to do about it.

``facts`` are read from Redis and the database (:mod:`.reading`), judged by pure functions (:mod:`.parts`,
:mod:`.proxies`), and put together (:mod:`.report`).
"""

"""The conductor: merges what proxies report, for pages, API and history; reconciles; writes events.

One process of several is elected (:mod:`.leader`). Each second it reads the rows (:mod:`.rows`) and the
reports (:mod:`.inbox`), merges them (:mod:`.merge`), builds frames (:mod:`.frame_builder`) and sends them.
"""

"""The conductor: merges what proxies report, for pages, API and history; reconciles; writes events.

One process of several is elected (:mod:`.leader_election`). Each second it reads the rows
(:mod:`.db_snapshot`) and the reports (:mod:`.report_reader`), merges them (:mod:`.merge`), builds frames
(:mod:`.frame_builder`), sends them, and writes notices into the event log (:mod:`.notices`).
"""

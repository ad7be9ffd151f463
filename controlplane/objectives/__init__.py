"""Objectives (SLO): how much of what a policy promises is kept, what is left of the error budget, and how
fast it burns.

Pure: counts over time (:mod:`.count_series`), the arithmetic (:mod:`.burn_rate`), what reports add
(:mod:`.counting`). Around that, :mod:`.tracker` reads and keeps (:mod:`.store`).
"""

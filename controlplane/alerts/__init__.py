"""Alerts: rules over one picture of the fleets, and who is told of what they find.

Pure: what is known (:mod:`.picture`), the rules (:mod:`.builtin_rules`, :mod:`.thresholds`), how an alert
begins and ends (:mod:`.lifecycle`), who is told and when (:mod:`.grouping`, :mod:`.silencing`). Around that,
:mod:`.evaluator` reads and writes, and :mod:`.delivery` sends.
"""

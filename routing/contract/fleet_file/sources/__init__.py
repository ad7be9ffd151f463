"""Discovery sources in a fleet file: what may be set of each kind, one file each.

:mod:`.source_rules` has what all of them have.
"""

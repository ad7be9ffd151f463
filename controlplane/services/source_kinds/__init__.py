"""What may be set of each kind of source, one file each; :mod:`..source_rules` has what all have."""

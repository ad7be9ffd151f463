"""Fleet files from the configuration of what did the balancing before. No Django, no network, files only.

One module reads each format into a :class:`~controlplane.importing.model.Draft`; :mod:`.writer` makes
the commented fleet file of it, which the strict reader of fleet files must accept.
"""

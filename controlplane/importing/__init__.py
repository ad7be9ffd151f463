"""Import: fleet files from the configuration of another load balancer. No Django, no network, files only.

One module reads each format into a :class:`~controlplane.importing.model.Draft`; :mod:`.writer` turns
it into a commented fleet file, which the strict parser of fleet files must accept.
"""

"""All that the control plane and the data plane must agree on: leaves of the import graph, no I/O.

Every message that crosses a plane is one typed struct in this package. Readers ignore fields they
do not know on the wire, so planes one version apart work together; files that people write are
read strictly (:mod:`routing.contract.fleet_file`).
"""

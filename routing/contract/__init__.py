"""All that the control plane and the data plane must agree on: leaves of the import graph.

No I/O, but for what both must ask the system alike: for the addresses of a host, and for an input file.

Every message that crosses a plane is one typed struct in this package. Readers ignore fields they
do not know on the wire, so planes one version apart work together; files that people write are
read strictly (:mod:`routing.contract.fleet_file`).
"""

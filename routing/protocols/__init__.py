"""Protocols: what a request says about itself, and the format of errors for its caller.

One file per protocol. Pure functions over bytes: no sockets, no fleets. A request's *work* is a rough
cost in units that only need to be comparable within one fleet; 0 means that nothing can be said, and a number
below 0 that its size is what stands behind the minus, with the length of the answer still to be added.
"""

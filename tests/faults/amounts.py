"""How much of each fault: by default what half an hour has room for, more by environment variables.

=============== ======= ========================================================================
FAULT_RATE      300     requests per second
FAULT_S         20      seconds of each failing mode
FAULT_TIMES     1       times of each kill, restart and upgrade
FAULT_GONE_S    10      seconds for which Redis, and the whole control plane, are gone
FAULT_STRICT    0       1: the bars of a quiet machine, without allowance for a slow or busy one
=============== ======= ========================================================================
"""

import os

RATE = float(os.environ.get("FAULT_RATE", "300"))
FOR_S = float(os.environ.get("FAULT_S", "20"))
TIMES = int(os.environ.get("FAULT_TIMES", "1"))
GONE_S = float(os.environ.get("FAULT_GONE_S", "10"))
STRICT = os.environ.get("FAULT_STRICT", "0") == "1"
STREAMS = 50
"""Streams of ten seconds that are under way at any moment, where nothing may be cut off."""

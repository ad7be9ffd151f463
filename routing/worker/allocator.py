"""Memory allocator settings (glibc's malloc): large buffers have memory mappings of their own.

Theory. A body is collected in one buffer that grows. A buffer that is a mapping grows by moving page tables
(``mremap``), and goes back to the system when it is freed. One in the heap is copied when it grows: a
megabyte at each piece of a large body, and its pages are touched anew. glibc begins with mappings, but at the
first one that is freed it raises its threshold to that size, up to 32 MiB: from then on large bodies are in
the heap. Measured with 500 uploads of 8 MiB, growing buffers were most of the longest turns of the loop, up
to 30 ms in one turn, and the worker's memory was a third larger.

A threshold that is set stays as it is. Other C libraries have none to set.
"""

import ctypes

MAPPED_BYTES = 2 << 20
"""From this size on. The pages of a mapping are new each time, which takes the kernel half a millisecond a
megabyte or more. Smaller buffers are quicker in the heap, where copying them takes less than that."""
KEPT_BYTES = 16 << 20
"""Free bytes at the heap's end that are kept. Set too, because glibc no longer raises this either."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Numbers of glibc's options (malloc.h)."""


def map_large_buffers() -> bool:
    """Do so from now on, in this process. False: this C library has no such option."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    return (
        option is not None
        and option(_M_MMAP_THRESHOLD, MAPPED_BYTES) == 1
        and option(_M_TRIM_THRESHOLD, KEPT_BYTES) == 1
    )

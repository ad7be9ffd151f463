"""What is known of replicas beside the numbers in :mod:`routing.replica`, one small book each.

The device memory that their requests have leased, the prompts' beginnings that they were sent lately, the
responses that they keep, and who sent what failed at them.
"""

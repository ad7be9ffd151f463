"""Outlier detection: ejection, soft ejection, poison clients, panic, slow start; who is eligible by these."""

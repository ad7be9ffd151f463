"""Admission control: slots, the queue, memory reservations, retry budget, and the rejections in words."""

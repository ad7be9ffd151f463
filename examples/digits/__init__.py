"""Handwritten-digit classifiers behind the Open Inference Protocol (V2), trained when they start."""

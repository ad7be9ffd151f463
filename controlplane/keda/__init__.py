"""KEDA's external scaler: the scaling signal over gRPC. ``switchyard keda_scaler`` runs it.

``external_scaler_pb2.py`` is generated from the ``.proto`` beside it; a test compares both.
"""

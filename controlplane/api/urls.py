"""Addresses under ``/api/v1/``. No trailing slashes."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []

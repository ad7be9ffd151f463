"""Django app of the dashboard: its templates and static files."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Switchyard dashboard"

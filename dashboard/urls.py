"""Pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from dashboard import accounts, views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("fleets/<str:name>", views.fleet, name="fleet"),
    path("alerts", views.alerts, name="alerts"),
    path("hardware", views.hardware, name="hardware"),
    path("events", views.events, name="events"),
    path("client-keys", views.client_keys, name="client-keys"),
    path("tokens", views.tokens, name="tokens"),
    path("system", views.system, name="system"),
    path("login", accounts.Login.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("password", accounts.ChangePassword.as_view(), name="password"),
]

"""Every address of the web process."""

from django.urls import include, path

from controlplane.web.health_checks import livez, readyz

urlpatterns = [
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("api/v1/", include("controlplane.api.urls")),
    path("", include("dashboard.urls")),
]
handler400 = "controlplane.api.errors.bad_request"
handler403 = "controlplane.api.errors.permission_denied"
handler404 = "controlplane.api.errors.not_found"
handler500 = "controlplane.api.errors.server_error"

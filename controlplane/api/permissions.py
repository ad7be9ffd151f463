"""Permissions: everybody who is signed in has read-only access, staff have write access."""

from typing import TYPE_CHECKING

from rest_framework import permissions
from rest_framework.request import Request

if TYPE_CHECKING:  # REST framework imports this module while it imports its views
    from rest_framework.views import APIView


class IsStaffOrReadOnly(permissions.BasePermission):
    message = "Your account has read-only access. Ask an administrator."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if not request.user.is_authenticated:
            return False
        return request.method in permissions.SAFE_METHODS or bool(request.user.is_staff)

"""Session store (``SESSION_ENGINE``) that knows no session id: the database has a digest of each.

Whoever reads the database, a backup or a log of its statements could otherwise go on with everybody's
session.
"""

import hashlib
from typing import Any

from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone

LENGTH = 40
"""Hexadecimal digits, as many as Django's column holds: 160 bits."""


def digest(session_key: str | None) -> str:
    """What stands for this id in the database. An id of 165 random bits needs no salt."""
    return hashlib.sha256((session_key or "").encode()).hexdigest()[:LENGTH]


class SessionStore(db.SessionStore):
    """Django's own, but for the key of each query."""

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        try:
            return self.model.objects.get(
                session_key=digest(self.session_key), expire_date__gt=timezone.now()
            )
        except self.model.DoesNotExist:
            self._session_key = None
            return None

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        try:
            return await self.model.objects.aget(
                session_key=digest(self.session_key), expire_date__gt=timezone.now()
            )
        except self.model.DoesNotExist:
            self._session_key = None
            return None

    def exists(self, session_key: str) -> bool:
        return super().exists(digest(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(digest(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        made = super().create_model_instance(data)
        made.session_key = digest(made.session_key)
        return made

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        made = await super().acreate_model_instance(data)
        made.session_key = digest(made.session_key)
        return made

    def delete(self, session_key: str | None = None) -> None:
        key = self.session_key if session_key is None else session_key
        if key is not None:
            super().delete(digest(key))

    async def adelete(self, session_key: str | None = None) -> None:
        key = self.session_key if session_key is None else session_key
        if key is not None:
            await super().adelete(digest(key))

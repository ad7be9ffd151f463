"""REST API (``/api/v1``): views, authentication, permissions, serializers, and errors as problem+json."""

"""Static files: hashed names kept for a year by browsers, served from this process."""

from collections.abc import Iterable, Iterator

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Also rewrites ``import`` paths inside JavaScript modules to the hashed names."""

    support_js_module_import_aggregation = True
    max_post_process_passes = 20
    """A module's hashed name is known once those of all that it imports are: one pass for each step of the
    longest chain of imports. Modules that import each other in a circle never settle, and fail here."""

    def compress_files(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Only the names that pages use. Compressing the others, and source maps, is most of the work."""
        used = set(self.hashed_files.values())
        yield from super().compress_files(
            path for path in paths if path in used and not path.endswith(".map")
        )


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Answers with the whole file: a streamed one would be read on the event loop under ASGI."""

    @staticmethod
    def serve(static_file: object, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)  # type: ignore[attr-defined]
        content = b""
        if found.file is not None:
            with found.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["content-type"]
        for name, value in found.headers:
            response[name] = value
        return response

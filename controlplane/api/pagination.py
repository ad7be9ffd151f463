"""Pages of rows: ``?page=2&page_size=200``."""

from rest_framework.exceptions import ParseError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request

LARGEST = 1000


class Pages(PageNumberPagination):
    page_size = 100
    invalid_page_message = 'There is no page "{page_number}": pages are whole numbers from 1 to the last one'

    def get_page_size(self, request: Request) -> int:
        """A size that is none is an error, not the default."""
        asked = request.query_params.get("page_size")
        if asked is None:
            return self.page_size
        if not (asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= LARGEST):
            raise ParseError(f'page_size must be a whole number from 1 to {LARGEST}, not "{asked[:40]}"')
        return int(asked)

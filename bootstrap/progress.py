"""How far an install is: one line that moves on a terminal, a few lines in a log."""

import sys


class Progress:
    """Counts packages out of ``total``, which shrinks as pip finds some to be for other platforms."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.count = 0
        self.shown_tenth = 0
        self.moves = sys.stdout.isatty()

    def package(self, name: str) -> None:
        self.count += 1
        percent = min(99, 100 * self.count // max(self.total, 1))
        if self.moves:
            self._line(f"  {percent:3d} %  {name}")
        elif percent // 10 > self.shown_tenth:
            self.shown_tenth = percent // 10
            self._line(f"  {percent:3d} %  {self.count} of the {self.total} for this machine, now {name}")

    def unpacking(self) -> None:
        self._line("   99 %  unpacking")

    def done(self, successful: bool) -> None:
        if self.moves:
            self._line("  100 %" if successful else "")
            print(flush=True)

    def _line(self, text: str) -> None:
        if self.moves:
            print(f"\r{text:<70}", end="", flush=True)
        else:
            print(text, flush=True)

"""The ping: one `!` or `.` at a time."""

from __future__ import annotations

#: IOS begins a new row of marks after so many.
ROW = 70


class Ping:
    """A `Job`. `interval` is the seconds from one mark to the next."""

    def __init__(self, target: str, count: int, *, answered: bool, interval: float) -> None:
        self._target, self._count, self._answered, self._interval = target, count, answered, interval
        self._sent: int | None = None

    def step(self) -> tuple[str, float | None]:
        if self._sent is None:
            self._sent = 0
            return self._heading(), self._interval
        self._sent += 1
        mark = "!" if self._answered else "."
        if self._sent == self._count:
            return f"{mark}\n{self._result(self._sent)}", None
        return mark + ("\n" if self._sent % ROW == 0 else ""), self._interval

    def abort(self) -> str:
        return f"\n{self._result(self._sent or 0)}"

    def _heading(self) -> str:
        return (
            "Type escape sequence to abort.\n"
            f"Sending {self._count}, 100-byte ICMP Echos to {self._target}, timeout is 2 seconds:\n"
        )

    def _result(self, sent: int) -> str:
        received = sent if self._answered else 0
        percent = 100 if received else 0
        times = ", round-trip min/avg/max = 1/2/4 ms" if received else ""
        return f"Success rate is {percent} percent ({received}/{sent}){times}\n"

"""UnlessItFails: after an error a machine is as it was before."""

from __future__ import annotations

from typing import Any


class UnlessItFails:
    """``with UnlessItFails(machine):`` puts all attributes back if the block ends with an error.

    The attributes themselves are not copied: what the block does to an array in place stays. An
    interrupt by the keyboard counts as an error.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> machine = SimpleNamespace(a=1)
    >>> try:
    ...     with UnlessItFails(machine):
    ...         machine.a, machine.b = 2, 3
    ...         raise ValueError("no")
    ... except ValueError:
    ...     print(machine)
    namespace(a=1)
    """

    def __init__(self, machine: Any) -> None:
        self.machine, self.before = machine, dict(vars(machine))

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            vars(self.machine).clear()
            vars(self.machine).update(self.before)

"""The entry point ``mercer``: exit code 0 fine, 1 mend it, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from mercer.app.terminal import AppError, require, shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments`` (default: those of the process); return the exit code."""
    try:
        click = require("click", "the command line")
        from mercer.app.commands import group

        try:
            group.main(args=arguments, prog_name="mercer", standalone_mode=False)
        except click.ClickException as error:  # wrong usage is one of them, with exit code 2
            error.show()
            return int(error.exit_code)
        except click.Abort as abort:  # click's name for an interrupt, which may have a sentence
            raise KeyboardInterrupt(*getattr(abort.__cause__, "args", ())) from None
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        return _say(str(error) or "interrupted: nothing was written", 130)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = error.strerror if error.filename is not None else error
        where = f"{error.filename}: " if error.filename is not None else ""
        return _say(f"{where}{reason}", 1)
    except (AppError, ImportError, ValueError, TypeError, ArithmeticError, MemoryError) as error:
        return _say(str(error) or type(error).__name__, 1)
    return 0


def _say(sentence: str, code: int) -> int:
    plain = shown(" ".join(sentence.split()), 2000)
    sys.stderr.write(f"mercer: {plain}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

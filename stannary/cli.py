"""The `stannary` command: its own sub-commands, the roles, and what a failure looks like.

Exit codes: 0 done · 1 refused, or anything else that failed · 2 the command was written wrongly · 3 you must act first
(settings, wallet, money) · 4 the network or the chain did not answer · 130 interrupted.
A failure is one line on standard error; STANNARY_DEBUG=1 adds the stack trace.
"""

from __future__ import annotations

import os
import sys
import traceback

import typer

from stannary.commands import devnet, dispute, pool, provider, wallet
from stannary.commands.roles import RootGroup
from stannary.errors import NetworkError, OperatorError, StannaryError
from stannary.settings import DEBUG_VARIABLE

EXIT_OTHER = 1
EXIT_OPERATOR = 3
EXIT_NETWORK = 4
EXIT_INTERRUPTED = 130

app = typer.Typer(
    cls=RootGroup,
    help="A compute marketplace that trains language models by reinforcement learning on strangers' machines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(wallet.app, name="wallet")
app.add_typer(provider.app, name="provider")
app.add_typer(pool.app, name="pool")
app.add_typer(dispute.app, name="dispute")
app.add_typer(devnet.app, name="devnet")


def main() -> None:
    """Run the command line and end the process with its exit code."""
    try:
        app()
    except StannaryError as error:
        _report(str(error), error)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:  # noqa: BLE001  the last line of defence: a person sees one line, never a trace
        _report(f"a fault of this program: {type(error).__name__}: {error} ({DEBUG_VARIABLE}=1 shows where)", error)
        sys.exit(EXIT_OTHER)


def exit_code(error: StannaryError) -> int:
    """Return the exit code of a failure."""
    if isinstance(error, OperatorError):
        return EXIT_OPERATOR
    return EXIT_NETWORK if isinstance(error, NetworkError) else EXIT_OTHER


def _report(message: str, error: BaseException) -> None:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
    print("stannary: " + " ".join(message.split()), file=sys.stderr)


if __name__ == "__main__":
    main()

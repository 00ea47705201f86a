"""`stannary demo`: the whole loop on this machine, honest and dishonest, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from demo.plan import PolicyName, plan_of

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_SIGNAL = 128

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    policy: Annotated[PolicyName, typer.Option(help="The policy to train.")] = "toy",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to run: 15 for toy, 3 for smollm2 unless given.")
    ] = None,
    lr: Annotated[float | None, typer.Option(min=0.0, help="Learning rate; the policy's own unless given.")] = None,
    run_dir: Annotated[Path, typer.Option(help="Where everything is kept; cleared at start.")] = Path("runs/demo"),
) -> None:
    """Found a pool on a chain of its own, run every role as a process, settle, and write a report."""
    from demo.processes import ProcessEnded, Stopped
    from demo.run import run_demo

    console = Console(soft_wrap=True)
    try:
        outcome = run_demo(plan_of(policy, steps, lr), run_dir, console)
    except ProcessEnded as ended:
        for line in ended.lines:
            console.print(f"    {line}", highlight=False, markup=False)
        raise
    except KeyboardInterrupt:
        console.print("interrupted; every process has ended", highlight=False, markup=False)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Stopped as stopped:
        console.print(f"stopped by {stopped}; every process has ended", highlight=False, markup=False)
        raise typer.Exit(EXIT_SIGNAL + stopped.number) from None
    console.print(f"report    {run_dir / 'report.html'}  {run_dir / 'report.json'}", highlight=False, markup=False)
    for failure in outcome.record.failures:
        console.print(f"FAILED    {failure}", highlight=False, markup=False)
    if outcome.record.failures:
        raise typer.Exit(EXIT_FAILED)

"""The command line: argv -> exit code. Every command is imported only when it is asked for."""

from __future__ import annotations

import difflib
import errno
import os
import sys
from importlib import import_module

from interlace.errors import InterlaceError

COMMANDS = {
    "sweep": ("interlace.cli.sweep", "measure arms in interleaved rounds and judge them"),
    "plan": ("interlace.cli.plan", "show arms, order, command lines and time; run nothing"),
    "resume": ("interlace.cli.resume", "go on with a sweep: the plan minus what is finished"),
    "status": ("interlace.cli.status", "how far a running or stopped sweep is"),
    "cancel": ("interlace.cli.cancel", "stop the jobs of a sweep under SLURM"),
    "report": ("interlace.cli.report", "tables and verdicts from what is on disk"),
    "compare": ("interlace.cli.compare", "compare logs that you already have"),
    "steps": ("interlace.cli.steps", "what Interlace reads out of a log, and why"),
    "aa": ("interlace.cli.aa", "the harness against itself: two identical arms"),
    "trace": ("interlace.cli.trace", "what profiler traces say of a step, and what bounds it"),
    "doctor": ("interlace.cli.doctor", "is this node fit to measure on, and what to do if not"),
    "rank": ("interlace.cli.rank", "the NUMA-aware wrapper of one rank: interlace rank -- CMD"),
    "clean": ("interlace.cli.clean", "remove the worktrees that Interlace made"),
}
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 ok, 1 a run failed, 2 usage, 3 fail_if, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from interlace import __version__  # noqa: PLC0415 (each command loads only what it needs)

        sys.stdout.write(f"interlace {__version__}\n")
        return 0
    return _dispatch(arguments[0], arguments[1:])


def _dispatch(command: str, rest: list[str]) -> int:
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"commands are {', '.join(COMMANDS)}"
        sys.stderr.write(f"interlace: error: there is no command '{command}'; {hint}\n")
        return 2
    try:
        code: int = import_module(COMMANDS[command][0]).run(rest)
        sys.stdout.flush()
    except InterlaceError as error:
        sys.stderr.write(f"interlace: error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interlace: interrupted\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe went away (`| head`); Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered cannot be written
        sys.stderr.write("interlace: error: there is no room left to write (a full disk, or the output's)\n")
        return 2
    return code


def usage() -> str:
    """Return the text of `interlace --help`."""
    lines = [f"  {name:<9} {text}" for name, (_, text) in COMMANDS.items()]
    return (
        "interlace: what a change to distributed training code is worth\n\n"
        "usage: interlace COMMAND [arguments]        interlace COMMAND --help\n\n"
        + "\n".join(lines)
        + "\n\nstart with:  interlace sweep             (the embedded quickstart: no GPU, no data, no network)\n"
        "             interlace compare baseline=a1.log,a2.log candidate=b1.log,b2.log order=ABBA\n"
    )

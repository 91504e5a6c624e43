"""All commands, and what happens when one fails."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from heterofedsyn import __version__
from heterofedsyn._files import reason
from heterofedsyn._words import NOT_PRIVATE, PRIVATE_KEY
from heterofedsyn.cli import (
    ask,
    audit,
    bench,
    compare,
    console,
    demo,
    evaluate,
    export,
    federation,
    plan,
    report,
    sample,
    schema,
    simulate,
    site,
    study,
)
from heterofedsyn.cli._show import note, say
from heterofedsyn.cli._signals import endings
from heterofedsyn.errors import HeterofedsynError, HeterofedsynWarning

_STOPPED = "stopped before the end; nothing half-written is left"

app = typer.Typer(
    name="heterofedsyn",
    help="Synthetic tables with differential privacy from data that may not be pooled.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("plan")(plan.plan)
app.command("sample")(sample.sample)
app.command("ask")(ask.ask)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("export")(export.export)
app.add_typer(schema.app, name="schema")
app.add_typer(site.app, name="site")
app.add_typer(study.app, name="study")
app.add_typer(federation.app, name="federation")
app.command("console")(console.console)
app.command("audit")(audit.audit)
app.add_typer(bench.app, name="bench")


def _print_version(value: bool) -> None:
    if value:
        say(f"heterofedsyn {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Synthetic tables with differential privacy from data that may not be pooled."""


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong use, 3 refused for privacy."""
    for number in endings():
        signal.signal(number, _terminate)
    sys.exit(run(sys.argv[1:]))


@cache
def _command() -> Any:
    """All commands, made once: a program may run several."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    command = _command()
    try:
        with _plain_warnings(), command.make_context("heterofedsyn", list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as stop:
        return int(stop.exit_code)
    except HeterofedsynError as error:
        return _fail(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail(_STOPPED, 130)
    except OSError as error:
        _close_output()
        if isinstance(error, BrokenPipeError):
            return 1
        return _fail(f"cannot read or write{_place(error)}: {reason(error)}", 1)
    except MemoryError:
        return _fail("there is not enough memory for this; ask for fewer rows or bins", 1)
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's own kind of error
            return _misused(error, arguments)
        if isinstance(error, RuntimeError) and "no locator available" in str(error):  # numba's
            return _fail(
                "there is no place to keep compiled code, as this user has no home that it may "
                "write; set NUMBA_CACHE_DIR to a folder of its own",
                1,
            )
        if os.environ.get("HETEROFEDSYN_DEBUG"):
            for line in traceback.format_exc().rstrip("\n").split("\n"):
                note(line)
        # The text of an unforeseen error could quote a record, so only its place is shown.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return _fail(f"unexpected {type(error).__name__} at {place}; please report this", 1)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Our own warnings as one line each; those of libraries are not for users."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        note(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", HeterofedsynWarning)
        warnings.showwarning = show
        yield


def _terminate(number: int, frame: object) -> None:
    # A shell that closes passes on the signal it gets: what is being cleaned up hears it once.
    for ending in endings():
        signal.signal(ending, _heed_no_more)
    raise SystemExit(_fail(_STOPPED, 128 + number))


def _heed_no_more(number: int, frame: object) -> None:
    """Not `SIG_IGN`, about which the interpreter complains when a signal came just before."""


def _place(error: OSError) -> str:
    """The file that an error is about, where it has one."""
    name = error.filename
    return f" {os.fsdecode(name)}" if isinstance(name, str | bytes | os.PathLike) else ""


def _close_output() -> None:
    """Drop what stdout does not take: at exit it would fail again, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _misused(error: Any, arguments: list[str]) -> int:
    """What the parser refused, with the word it refused and where help is."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        for line in str(error.format_message()).split("\n"):
            note(line)
        return 2
    text = " ".join(str(error.format_message()).split()).rstrip(".")
    for option in getattr(getattr(error, "param", None), "opts", ()):
        if option in arguments[:-1]:  # the last one counts
            given = arguments[len(arguments) - arguments[::-1].index(option)]
            text = text.replace(f"{option!r}:", f"{option!r} ({given!r}):", 1)
    if PRIVATE_KEY in text:  # which begins as options do, and would be repeated as one
        text = NOT_PRIVATE
    path = context.command_path if context else "heterofedsyn"
    end = " See" if text.endswith("?") else "; see"
    return _fail(f"{text}{end} `{path} --help`", 2)


def _fail(message: str, code: int) -> int:
    with suppress(OSError):  # a terminal that is gone hears nothing
        note(f"error: {message}")
    return code

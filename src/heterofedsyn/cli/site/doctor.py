"""`heterofedsyn site doctor`: every rule, checked on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._defaults import UNITS
from heterofedsyn._words import count
from heterofedsyn.cli._options import Json
from heterofedsyn.cli._show import say, say_json
from heterofedsyn.cli.site.join import HERE, Place


def doctor(
    folder: Place = HERE,
    units: Annotated[Path, typer.Option(metavar="DIR", help="Where systemd's units are.")] = Path(
        UNITS
    ),
    strict: Annotated[
        bool, typer.Option("--strict", help="What cannot be told counts as wrong.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help='A rule that need not be kept here, such as "anchor\'s disk"; may be repeated.',
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every rule on this machine; change nothing.

    Kit, users, files, socket, anchor, units, versions, clock and hub.

    Best as root, who can ask what other users may read. Ends with 1 if something is wrong.
    """
    import msgspec

    from heterofedsyn.errors import UsageError, did_you_mean
    from heterofedsyn.federation.doctor import examine
    from heterofedsyn.federation.finding import accepted

    findings = list(examine(folder, units))
    rules = [finding.rule for finding in findings]
    for name in accept or ():
        if name not in rules:
            raise UsageError(f"--accept {name!r} is no rule here; {did_you_mean(name, rules)}")
    findings = [accepted(each) if each.rule in (accept or ()) else each for each in findings]
    states = [finding.state for finding in findings]
    bad = states.count("wrong") + (states.count("cannot tell") if strict else 0)
    if as_json:
        say_json({"findings": msgspec.to_builtins(findings), "wrong": bad})
    else:
        for finding in findings:
            remedy = f" -> {finding.remedy}" if finding.remedy else ""
            say(f"{finding.state:<11} {finding.rule}: {finding.words}{remedy}")
        say(
            f"{count(len(findings), 'rule')}: {states.count('ok')} ok, {states.count('wrong')} "
            f"wrong, {states.count('cannot tell')} cannot be told"
            + (f", {states.count('accepted')} accepted" if accept else "")
        )
    if bad:
        raise typer.Exit(1)

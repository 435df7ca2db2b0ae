"""What the facts say about the CPUs: who else computes, and whether their speed is steady."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from interlace.doctor.facts import SHOWN_FROM_PCT
from interlace.doctor.finding import Finding, ok, problem, warning
from interlace.gate import judge
from interlace.settings import GateConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlace.doctor.facts import CpuUser, NodeFacts

LOUD_PCT = 50.0
"""Of one core: a neighbour that uses this much takes a core from somebody."""

UNSEEN_CORES = 1.0
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
"""Clock sources that are read over a bus or count coarsely; every reading of the time pays for it."""

_FOLLOWS_THE_LOAD = ("ondemand", "conservative", "schedutil", "interactive")
_SAVES = ("power", "balance_power")
_FASTER = "`sudo cpupower frequency-set -g performance` while you measure"


def load(facts: NodeFacts) -> Iterator[Finding]:
    """Say how busy the CPUs are, judged as the gate would, and by whom."""
    busy = facts.load.busy_pct
    threads = facts.node.cpu.threads
    if busy is None:
        yield warning(
            "load", "cannot be read from /proc/stat", "see whether /proc is mounted: the gate cannot judge it"
        )
    else:
        what = f"{busy:.0f} % of {threads or 'all'} CPUs busy, over {facts.load.sampled_s:g} s"
        if judge(replace(facts.gate, gpus=(), unreadable=None), GateConfig()):
            limit = GateConfig().cpu_busy_pct
            yield problem(
                "load", what, f"wait until it is over: a sweep waits at more than {limit:g} % (gate.cpu_busy_pct)"
            )
        else:
            yield ok("load", what)
    yield _others(facts, (busy or 0.0) / 100 * (threads or 0))


def _others(facts: NodeFacts, busy_cores: float) -> Finding:
    """Name the processes that compute, and what the CPUs did beyond those."""
    users = facts.load.users
    seen = _named(users) or f"no process above {SHOWN_FROM_PCT:g} % of a core"
    unseen_cores = busy_cores - sum(user.cpu_pct for user in users) / 100
    if any(user.cpu_pct >= LOUD_PCT for user in users):
        return warning("others", seen, "end what is not needed, or measure when it is over: it takes cores from ranks")
    if unseen_cores >= UNSEEN_CORES:
        return warning(
            "others", f"{seen}, and yet {busy_cores:.1f} cores were busy",
            "look with `top`, from the host if this is a container: such processes are short-lived or hidden from here",
        )  # fmt: skip
    return ok("others", seen)


def _named(users: tuple[CpuUser, ...]) -> str:
    return "; ".join(f"pid {one.pid} {one.name} ({one.user or 'user unknown'}) {one.cpu_pct:.0f} %" for one in users)


def speed(facts: NodeFacts) -> Iterator[Finding]:
    """Say whether frequency, boost and SMT let two runs go equally fast."""
    yield _governor(facts)
    cpu = facts.cpu
    boost = {None: "boost unknown", True: "boost on", False: "boost off"}[cpu.boost]
    smt = {"on": "SMT on", "off": "SMT off", "forceoff": "SMT off", "notsupported": "no SMT", None: "SMT unknown"}
    parts = [
        facts.node.cpu.model or "model unknown",
        _cores(facts),
        smt.get(cpu.smt, f"SMT {cpu.smt}"),
        boost,
        *([f"isolated: {cpu.isolated}"] if cpu.isolated else []),
        *([f"offline: {cpu.offline}"] if cpu.offline else []),
    ]
    yield ok("CPU", ", ".join(part for part in parts if part))


def _cores(facts: NodeFacts) -> str:
    cpu = facts.node.cpu
    if cpu.sockets is None or cpu.cores is None:
        return f"{cpu.threads} threads" if cpu.threads else ""
    return f"{cpu.sockets} socket{'s' if cpu.sockets > 1 else ''}, {cpu.cores} cores, {cpu.threads} threads"


def _governor(facts: NodeFacts) -> Finding:
    """Judge frequency scaling. In active mode of intel_pstate and amd-pstate, `powersave` names the normal governor."""
    cpu = facts.cpu
    governors = sorted(cpu.governors)
    if not governors:
        return ok("governor", facts.node.missing.get("cpu.governor", "cannot be read"))
    shown = ", ".join(f"{name} on {number}" for name, number in sorted(cpu.governors.items())) + " CPUs"
    shown += f" ({cpu.driver})" if cpu.driver else ""
    if len(governors) > 1:
        return warning("governor", f"not the same everywhere: {shown}", f"set one for all: {_FASTER}")
    if governors == ["powersave"] and cpu.driver_active:
        return _active(shown, sorted(cpu.preferences))
    if governors == ["powersave"]:
        return warning("governor", f"{shown}: the lowest frequency at any load", f"{_FASTER}")
    if governors[0] in _FOLLOWS_THE_LOAD:
        return warning(
            "governor", f"{shown}: clocks follow the load", f"{_FASTER}: launching kernels waits for one core"
        )
    return ok("governor", shown)


def _active(shown: str, preferences: list[str]) -> Finding:
    preference = f", preference {'/'.join(preferences)}" if preferences else ""
    if set(preferences) & set(_SAVES):
        return warning("governor", f"{shown}{preference}: the hardware saves power first", _FASTER)
    return ok(
        "governor", f"{shown}{preference}: in active mode the hardware raises clocks with load; performance is steadier"
    )


def clock(facts: NodeFacts) -> Iterator[Finding]:
    """Say what the kernel reads the time from."""
    source = facts.node.cpu.clock_source
    if source is None:
        yield ok("clock source", "cannot be read from sysfs")
    elif source in SLOW_CLOCKS:
        yield warning(
            "clock source", f"{source}: each reading of the time is slow",
            "see `dmesg | grep -i tsc` for why the TSC was given up; newer firmware or tsc=reliable may bring it back",
        )  # fmt: skip
    else:
        yield ok("clock source", source)

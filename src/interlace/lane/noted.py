"""What the nodes of a lane saw of a run, put into its record and its files; the ends of their logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlace.files import write_json
from interlace.lane.causes import telling
from interlace.lane.nodes.together import labelled
from interlace.lane.others import crowded, foreigners_of, others_cpu_pct, with_those_at_the_gate
from interlace.lane.prepared import out_dir
from interlace.lane.proof import doubts
from interlace.lane.runlog import tail_text
from interlace.wording import sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from interlace.lane.nodes.node import Ended, Node
    from interlace.lane.nodes.together import Gates
    from interlace.schema import Foreigner, GpuSeen, RunRecord

T = TypeVar("T", "GpuSeen", "Foreigner")


def with_nodes(
    record: RunRecord, run_dir: Path, nodes: Sequence[Node], gates: Gates, ended: Sequence[Ended]
) -> RunRecord:
    """Add what the monitors saw and where the ranks were found; a run that failed has other worries than its place."""
    placements = sorted((rank for one in ended for rank in one.placements), key=lambda rank: int(rank["rank"] or 0))
    write_json(run_dir / "placement.json", placements)
    each = list(zip(nodes, gates.nodes, ended, strict=True))
    seen = _alike((node.label, text) for node, _, one in each for text in (*one.notes, *crowded(one)))
    passed = [f"gate passed over: {reason}" for reason in gates.reasons]
    stubborn = [text for node, _, one in each for text in labelled(node.label, _stubborn(one))]
    busy = [one.cpu_busy_pct for one in ended if one.cpu_busy_pct is not None]
    return replace(
        record,
        gpus=tuple(_there(gpu, node) for node, _, one in each for gpu in one.gpus),
        foreign=tuple(
            _there(who, node)
            for node, (_, gate), one in each
            for who in with_those_at_the_gate(foreigners_of(one, one.placements), gate)
        ),
        cpu_busy_pct=max(busy, default=None),
        others_cpu_pct=others_cpu_pct(record, ended),
        notes=(*record.notes, *seen, *(doubts(placements) if record.status == "ok" else ()), *passed, *stubborn),
    )


def _alike(told: Iterable[tuple[str | None, str]]) -> list[str]:
    """Say once what several nodes have to say."""
    where = sharing((label or "", text) for label, text in told)
    return [f"{', '.join(names)}: {text}" if any(names) else text for text, names in where.items()]


def _there(one: T, node: Node) -> T:
    return replace(one, node=node.label)


def _stubborn(one: Ended) -> tuple[str, ...]:
    pids = ", ".join(map(str, one.stubborn))
    return (f"processes that could not be ended: {pids}",) if pids else ()


def end_of(
    run_dir: Path, nodes: Sequence[Node], codes: Mapping[str, int], ended: Sequence[Ended]
) -> tuple[str, int | None, str | None]:
    """Return the ends of the logs that tell how the run ended, its return code, and the node where it has several.

    `codes` are the return codes of the programs that ended by themselves, by node, the first to end first.
    """
    names = [node.name for node in nodes]
    failed = [name for name, code in codes.items() if code != 0] if len(nodes) > 1 else []
    texts = [tail_text(out_dir(run_dir, nodes, names.index(name))) for name in failed]
    if not failed:
        return tail_text(run_dir), ended[0].returncode, None
    first = telling([(text, codes[name]) for name, text in zip(failed, texts, strict=True)])
    return texts[first], codes[failed[first]], failed[first]

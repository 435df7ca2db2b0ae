"""Where the host spends a step: one column a phase, what is left last."""

from __future__ import annotations

from interlace.compare import ArmSummary
from interlace.report.phase_table import phase_table


def test_a_table_has_every_phase_of_any_arm_and_the_rest_at_the_end() -> None:
    arms = [
        ArmSummary("baseline", 1, 1, phases_s={"forward": 0.02, "read back": 0.0001, "rest": 0.001}),
        ArmSummary("graph", 1, 1, phases_s={"replay": 0.0004, "read back": 0.0102, "rest": 0.0}),
        ArmSummary("silent", 1, 1),
    ]

    table = phase_table(arms)

    assert table is not None
    assert table.header == ("arm", "forward", "read back", "replay", "rest")
    assert table.rows == (
        ("baseline", "20.00 ms", "0.100 ms", "", "1.000 ms"),
        ("graph", "", "10.20 ms", "0.400 ms", "0.000 ms"),
    )


def test_without_phases_there_is_no_table() -> None:
    assert phase_table([ArmSummary("baseline", 1, 1)]) is None

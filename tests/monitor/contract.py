"""What every source of GPU facts must do; an implementation's test class inherits this and gives `source`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlace.monitor.readings import GpuSource

BUS_ID = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
SAMPLED = ("memory_used_mib", "utilization_pct", "sm_clock_mhz", "temperature_c", "power_w", "throttle")


class MonitorContract:
    """Inherit, and define a fixture `source` that gives an open source."""

    def test_a_source_names_itself_and_says_why_it_was_chosen(self, source: GpuSource) -> None:
        assert source.kind
        assert source.reason
        assert source.min_interval_s >= 0

    def test_every_gpu_has_a_key_of_its_own(self, source: GpuSource) -> None:
        uuids = [gpu.uuid for gpu in source.inventory()]

        assert all(uuids)
        assert len(set(uuids)) == len(uuids)

    def test_a_bus_id_is_spelt_as_sysfs_does_or_missing_with_a_reason(self, source: GpuSource) -> None:
        for gpu in source.inventory():
            if gpu.bus_id is None:
                assert gpu.reasons.get("bus_id") or gpu.reasons.get("gpu")
            else:
                assert BUS_ID.fullmatch(gpu.bus_id)

    def test_samples_are_of_gpus_in_the_inventory(self, source: GpuSource) -> None:
        known = {gpu.uuid for gpu in source.inventory()}

        assert {sample.uuid for sample in source.sample()} <= known

    def test_a_missing_value_has_a_reason_and_a_known_one_has_none(self, source: GpuSource) -> None:
        for sample in source.sample():
            for name in SAMPLED:
                assert (getattr(sample, name) is None) == (name in sample.reasons), name

    def test_time_does_not_run_backwards(self, source: GpuSource) -> None:
        first = [sample.t_s for sample in source.sample()]
        second = [sample.t_s for sample in source.sample()]

        assert all(before <= after for before, after in zip(first, second, strict=True))

    def test_processes_have_a_pid_and_belong_to_a_gpu_or_the_list_says_why_it_is_unknown(
        self, source: GpuSource
    ) -> None:
        listed = source.processes()

        assert all(process.pid > 0 for process in listed.processes)
        assert all(listed.reasons.values())

    def test_the_driver_can_always_be_asked(self, source: GpuSource) -> None:
        driver = source.driver()

        assert driver.version is None or driver.version[0].isdigit()

    def test_closing_twice_is_harmless(self, source: GpuSource) -> None:
        source.close()
        source.close()

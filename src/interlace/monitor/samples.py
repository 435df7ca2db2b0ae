"""Samples of a run as a parquet file; the only module of the monitor that needs pyarrow."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from interlace.monitor.sampler import GPU_COLUMNS, NODE_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

    from interlace.monitor.sampler import MonitorResult

SAMPLES_FORMAT_VERSION = 1
"""Version of monitor.parquet, in its schema's metadata. 1: first."""


def write_samples(path: Path, result: MonitorResult) -> None:
    """Write one row per moment and GPU, and one per moment for the node (`uuid` null); missing is null.

    Everything else of the result stands as JSON under `interlace` in the schema's metadata. Written under
    a temporary name and renamed.
    """
    table = to_table(result)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def to_table(result: MonitorResult) -> pa.Table:
    """Turn samples into an Arrow table: `t_s`, `uuid`, then one column per quantity, unit in its name."""
    numbers = {
        name: pa.array(result.columns[name], pa.float64(), from_pandas=True)
        for name in ("t_s", *GPU_COLUMNS, *NODE_COLUMNS)
    }
    numbers["throttle"] = numbers["throttle"].cast(pa.int64())
    uuids = pa.array(result.columns["uuid"], pa.string()).dictionary_encode()
    facts = {name: value for name, value in asdict(result).items() if name != "columns"}
    facts["format_version"] = SAMPLES_FORMAT_VERSION
    table = pa.table({"t_s": numbers.pop("t_s"), "uuid": uuids, **numbers})
    return table.replace_schema_metadata({"interlace": json.dumps(facts)})

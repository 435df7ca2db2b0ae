from __future__ import annotations

from tests.launch.contract import LauncherContract


class TestAccelerate(LauncherContract):
    kind = "accelerate"
    world = 2


class TestTorchrun(LauncherContract):
    kind = "torchrun"
    world = 2


class TestPlain(LauncherContract):
    kind = "plain"
    world = 1

"""How the ranks of a run start: one pure function a launcher, from configuration to argument list."""

from interlace.launch.command import WORKTREE, Launch, applied, arm_env, build_launch, rank_command
from interlace.launch.rendezvous import Rendezvous, by_hand
from interlace.launch.script import command_script

__all__ = [
    "WORKTREE",
    "Launch",
    "Rendezvous",
    "applied",
    "arm_env",
    "build_launch",
    "by_hand",
    "command_script",
    "rank_command",
]

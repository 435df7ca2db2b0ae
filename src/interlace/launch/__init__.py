"""How the ranks of a run start: one pure function a launcher, from configuration to argument list."""

from interlace.launch.command import Launch, applied, arm_env, build_launch, command_script, rank_command

__all__ = ["Launch", "applied", "arm_env", "build_launch", "command_script", "rank_command"]

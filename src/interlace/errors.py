"""The one error hierarchy: every message a user can cause says what, where, and what to do."""


class InterlaceError(Exception):
    """Base of all errors that are the user's to mend; printed without a traceback."""

    exit_code = 2


class ConfigError(InterlaceError):
    """A configuration, an override or a sweep file is wrong."""


class UsageError(InterlaceError):
    """A command was called with arguments that make no sense."""


class SourceError(InterlaceError):
    """A repository, a revision or a worktree cannot be used as asked."""


class ReadError(InterlaceError):
    """A log or a sweep folder could not be understood."""


class LaunchError(InterlaceError):
    """A run could not be started at all (its program is missing, say)."""


class NodeLostError(InterlaceError):
    """A node of the lane, or the agent on it, does not answer any more; the lane cannot go on without it."""

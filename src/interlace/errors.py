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


class NoStepsError(ReadError):
    """A log could be read, and no step times stand in it.

    `what` is that in one phrase, `hints` what is known of such a log, `shown` its first lines: none where nothing was
    written. The error's own text has all of it, and the path, for who reads one log.
    """

    def __init__(self, text: str, what: str, hints: tuple[str, ...] = (), shown: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.what, self.hints, self.shown = what, hints, shown


class LaunchError(InterlaceError):
    """A run could not be started at all (its program is missing, say)."""


class NodeLostError(InterlaceError):
    """A node of the lane, or the agent on it, does not answer any more; the lane cannot go on without it."""

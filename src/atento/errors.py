"""The errors that a user, not the code, can mend."""

__all__ = ["UserError"]


class UserError(Exception):
    """A wrong argument, a missing file, a bad value: the command line prints it as one line.

    The sentence names the argument, what was expected, what was given, and what to do. Anything
    else that is raised is a defect of atento and keeps its traceback.
    """

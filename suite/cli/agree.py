"""Asking a person before something that cannot be taken back."""

from __future__ import annotations

import click

from suite.errors import InvalidInput


def agreed(question: str, *, where: str) -> bool:
    """Whether a person says yes.

    Args:
        question: On standard error.
        where: The command, for messages.

    Raises:
        InvalidInput: nobody answers.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        raise InvalidInput("nobody is there to agree", where=where, hint="look at it, then add --yes") from error

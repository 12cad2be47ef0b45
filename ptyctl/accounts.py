"""Names of the users and groups of this machine. Imports only the standard library."""

from __future__ import annotations

import grp
import pwd


def login_name(uid: int) -> str:
    """Return the login name of a user; without one, for example in a container, the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group; without one, the number."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)

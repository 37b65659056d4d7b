"""Which database a URL points at, and the sentence for each way in which it can fail its user."""

import contextlib
from typing import Any

from msgspec import Struct
from psycopg import Error
from psycopg.conninfo import conninfo_to_dict

from stoker.domain.errors import ErrorCode, StokerError, bad_request

OLDEST = 14


class Place(Struct, frozen=True):
    """A database as a user would point at it."""

    host: str
    port: str
    database: str
    user: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def unreachable(self, reason: str) -> StokerError:
        """No connection could be made; `reason` is libpq's text, which names hosts and users but no password."""
        reason = reason.strip().split("\n", 1)[0]
        if "password authentication failed" in reason or "no password supplied" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} refuses user "{self.user}" with the password given.'
            hint = "Check user and password of --database; characters such as @ : / are written as %40 %3A %2F."
        elif 'database "' in reason and "does not exist" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} has no database "{self.database}".'
            hint = f"Create it: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0."
        elif "resolve host" in reason or "translate host name" in reason:
            message = f'The host "{self.host}" of the database is not known to this machine.'
            hint = "Check the host of --database and the name service (getent hosts)."
        else:
            message = f"The database {self} cannot be reached: {reason}."
            hint = "Check that PostgreSQL runs, and host and port of --database."
        return StokerError(ErrorCode.BACKEND_DOWN, message, hint=hint, retry_after_seconds=1)

    def lost(self, reason: str) -> StokerError:
        """The server failed in the middle of a transaction, which therefore did not happen."""
        reason = reason.strip().split("\n", 1)[0]
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The database {self} failed: {reason}. Nothing of this request was kept.",
            hint="Try again; if it stays, look at the log of PostgreSQL.",
            retry_after_seconds=1,
        )

    def unsure(self) -> StokerError:
        """The connection ended between the commit and its answer."""
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The connection to the database {self} was lost while this change was being committed. "
            "It may or may not have been kept.",
            hint="Look whether the change is there before you send it again.",
        )

    def crowded(self, tries: int) -> StokerError:
        """Other transactions won every time."""
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The database {self} is too busy: this change met others {tries} times. Nothing of it was kept.",
            hint="Try again in a moment.",
            retry_after_seconds=1,
        )

    def unfit(self, version: int, encoding: str) -> StokerError | None:
        """Why this server cannot hold Stoker, if so; `version` as libpq counts it (160004)."""
        if version < OLDEST * 10_000:
            return StokerError(
                ErrorCode.STATE_FORBIDS,
                f"The PostgreSQL at {self.host}:{self.port} has version {version // 10_000}; "
                f"Stoker needs {OLDEST} or newer.",
                hint="Upgrade it, or name another --database.",
            )
        if encoding != "UTF8":
            return StokerError(
                ErrorCode.STATE_FORBIDS,
                f"The database {self} is encoded in {encoding}; Stoker needs UTF8.",
                hint=f"Create it anew: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0.",
            )
        return None

    def unprepared(self, reason: str) -> StokerError:
        """The tables could not be made."""
        return StokerError(
            ErrorCode.STATE_FORBIDS,
            f'User "{self.user}" cannot set up the database {self}: {reason.strip()}. Nothing was changed.',
            hint=f'Make the user its owner: ALTER DATABASE {self.database} OWNER TO "{self.user}".',
        )


def options_of(url: str) -> dict[str, Any]:
    """The parts of the URL; a refusal repeats none, as what looks like a host may be a piece of the password."""
    with contextlib.suppress(Error):
        options = conninfo_to_dict(url)
        ports = str(options.get("port", "")).replace(",", "")
        if "@" not in str(options.get("host", "")) and (not ports or ports.isdigit()):
            return options
    raise bad_request(
        "database",
        "this is not a PostgreSQL URL. Use postgresql://user:password@host:5432/name.",
        hint="Characters such as @ : / in the password are written as %40 %3A %2F.",
    )


def place_of(options: dict[str, Any]) -> Place:
    user = options.get("user", "")
    return Place(
        host=options.get("host") or "local socket",
        port=str(options.get("port") or 5432),
        database=options.get("dbname") or user,
        user=user,
    )

"""The address of a PostgreSQL database, and the user-facing errors of connections and transactions to it."""

import contextlib
from typing import Any

from msgspec import Struct
from psycopg import Error
from psycopg.conninfo import conninfo_to_dict

from stoker.domain.errors import ErrorCode, StokerError, bad_request

MIN_SERVER_VERSION = 14


class DatabaseAddress(Struct, frozen=True):
    """Host, port, database and user, without the password."""

    host: str
    port: str
    database: str
    user: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def unreachable(self, reason: str) -> StokerError:
        """The server did not accept a connection; `reason` is libpq's text, which never contains the password."""
        reason = reason.strip().split("\n", 1)[0]
        if "password authentication failed" in reason or "no password supplied" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} refuses user "{self.user}" with the password given.'
            hint = "Check user and password of --database; characters such as @ : / are written as %40 %3A %2F."
        elif 'database "' in reason and "does not exist" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} has no database "{self.database}".'
            hint = f"Create it: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0."
        elif "resolve host" in reason or "translate host name" in reason:
            message = f'The host "{self.host}" of the database cannot be resolved.'
            hint = "Check the host of --database and the name service (getent hosts)."
        else:
            message = f"The database {self} cannot be reached: {reason}."
            hint = "Check that PostgreSQL runs, and host and port of --database."
        return StokerError(ErrorCode.UNAVAILABLE, message, hint=hint, retry_after_seconds=1)

    def connection_lost(self, reason: str) -> StokerError:
        """The server failed during a transaction, which is therefore rolled back."""
        reason = reason.strip().split("\n", 1)[0]
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"The database {self} failed: {reason}. Nothing of this request was saved.",
            hint="Try again. If the error persists, read the log of PostgreSQL.",
            retry_after_seconds=1,
        )

    def commit_unknown(self) -> StokerError:
        """The connection was lost after COMMIT was sent and before the answer arrived."""
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"The connection to the database {self} was lost while this change was being committed. "
            "The change may or may not have been saved.",
            hint="Check whether the change was saved before you send it again.",
        )

    def serialization_exhausted(self, tries: int) -> StokerError:
        """Every attempt conflicted with another transaction."""
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"The database {self} is too busy: this change conflicted with others {tries} times. "
            "Nothing of it was saved.",
            hint="Try again in a moment.",
            retry_after_seconds=1,
        )

    def unsupported(self, version: int, encoding: str) -> StokerError | None:
        """Why this server is unsupported, or None; `version` is in libpq's form (160004)."""
        if version < MIN_SERVER_VERSION * 10_000:
            return StokerError(
                ErrorCode.CONFLICT,
                f"The PostgreSQL at {self.host}:{self.port} has version {version // 10_000}; "
                f"Stoker needs {MIN_SERVER_VERSION} or newer.",
                hint="Upgrade it, or name another --database.",
            )
        if encoding != "UTF8":
            return StokerError(
                ErrorCode.CONFLICT,
                f"The database {self} is encoded in {encoding}; Stoker needs UTF8.",
                hint=f"Create it again: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0.",
            )
        return None

    def no_privilege(self, reason: str) -> StokerError:
        """The user may not create the tables."""
        return StokerError(
            ErrorCode.CONFLICT,
            f'User "{self.user}" cannot set up the database {self}: {reason.strip()}. Nothing was changed.',
            hint=f'Make the user its owner: ALTER DATABASE {self.database} OWNER TO "{self.user}".',
        )


def parse_url(url: str) -> dict[str, Any]:
    """The parts of the URL. The error repeats none of them: what looks like a host may be part of the password."""
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


def address_of(options: dict[str, Any]) -> DatabaseAddress:
    user = options.get("user", "")
    return DatabaseAddress(
        host=options.get("host") or "local socket",
        port=str(options.get("port") or 5432),
        database=options.get("dbname") or user,
        user=user,
    )

"""What a shim is told: names and values with a NUL after each, so that no parser is needed to read them."""


def encode(fields: list[tuple[str, str]]) -> bytes:
    """The bytes of a launch file; a name may come more than once."""
    return b"".join(f"{name}\0{value}\0".encode("utf-8", "surrogateescape") for name, value in fields)


class LaunchOrder:
    """One command and the walls around it. Paths are real paths, without links."""

    def __init__(self, data: bytes) -> None:
        fields: dict[str, list[str]] = {}
        parts = data.decode("utf-8", "surrogateescape").split("\0")
        for name, value in zip(parts[0:-1:2], parts[1::2], strict=True):
            fields.setdefault(name, []).append(value)

        def one(name: str, default: str = "") -> str:
            return fields.get(name, [default])[0]

        self.script = one("script")
        self.shell = one("shell")
        self.env = dict(pair.split("=", 1) for pair in fields.get("env", []))
        self.folder = one("folder")
        """The working directory, and the only part of the data directory that the command can see."""
        self.namespaces = one("namespaces") == "1"
        self.temporary = one("temporary")
        """The folder that the command has as /tmp."""
        self.covered = fields.get("covered", [])
        """Folders that the command's user could not pass: all that it sees of them is what it is to see."""
        self.hidden = fields.get("hidden", [])
        """Folders and files that the command must not see; the first is the data directory."""
        self.read_only = fields.get("read-only", [])
        """Folders that the command may read and not write: the platform's own code, and the server's home."""
        self.user = int(one("user", "0"))
        """The user that the command runs as; 0 is the keeper's own."""
        self.user_groups = [int(group) for group in fields.get("user-group", [])]
        self.accounts = one("accounts")
        """A file to be seen as /etc/passwd, in which the user has a name."""
        self.devices = fields.get("device", [])
        self.groups = fields.get("group", [])
        """Files of control groups that a process joins by writing 0."""
        self.kill_count = one("kill-count")
        """The control group's file that counts kills for lack of memory."""
        self.cpu_limit = one("cpu-limit")
        """The control group's file that limits the processors."""
        self.data_limit = int(one("data-limit", "0"))
        """Bytes a single process may hold, where there is no control group."""
        self.restart = one("restart") == "1"
        self.segment_bytes = int(one("segment-bytes", "16777216"))
        self.segments = int(one("segments", "4"))

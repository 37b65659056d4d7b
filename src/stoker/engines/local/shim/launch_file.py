"""The launch file of a shim: names and values, each terminated by NUL, so that it can be read without a parser."""


def encode(fields: list[tuple[str, str]]) -> bytes:
    """The bytes of a launch file; a name may occur more than once."""
    return b"".join(f"{name}\0{value}\0".encode("utf-8", "surrogateescape") for name, value in fields)


class LaunchConfig:
    """One command and its sandbox. Paths are real paths, without links."""

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
        self.working_dir = one("folder")
        """The working directory, and the only part of the data directory that the command can see."""
        self.probe_dir = one("enter")
        """A directory that a probe tries to enter, and the device and inode that it has to find there."""
        self.probe_inode = one("enter-inode")
        self.use_namespaces = one("namespaces") == "1"
        self.tmp_dir = one("temporary")
        """The directory that the command sees as /tmp."""
        self.masked_dirs = fields.get("covered", [])
        """Directories that the command's user could not traverse: they are replaced by empty ones with what it may
        see."""
        self.hidden_paths = fields.get("hidden", [])
        """Directories and files that the command must not see; the first is the data directory."""
        self.read_only_dirs = fields.get("read-only", [])
        """Directories that the command may read but not write: the platform's own code, and the server's home."""
        self.uid = int(one("user", "0"))
        """The uid that the command runs as; 0 is the shim's own."""
        self.supplementary_groups = [int(group) for group in fields.get("user-group", [])]
        self.passwd_file = one("accounts")
        """A file that is mounted as /etc/passwd, with a name for the uid."""
        self.devices = fields.get("device", [])
        self.cgroup_files = fields.get("group", [])
        """Files of control groups that a process joins by writing 0."""
        self.oom_events_file = one("kill-count")
        """The control group's file that counts OOM kills."""
        self.cpu_limit_file = one("cpu-limit")
        """The control group's file that limits the CPUs."""
        self.data_limit_bytes = int(one("data-limit", "0"))
        """The memory limit of a single process, where there is no control group."""
        self.restart_on_exit = one("restart") == "1"
        self.segment_bytes = int(one("segment-bytes", "16777216"))
        self.max_segments = int(one("segments", "4"))

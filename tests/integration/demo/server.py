"""A whole server with a small demo, as a process of its own."""

from pathlib import Path

from tests.integration.live_server import LiveServer


class DemoServer(LiveServer):
    def __init__(self, data_dir: Path, *flags: str) -> None:
        super().__init__(data_dir)
        self._options += ["--demo", "--demo-gpus", "512", "--demo-days", "0.2", "--demo-speed", "20", *flags]

"""Certificates that last as long as a test."""

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest


class Certificate(msgspec.Struct, frozen=True):
    cert: Path
    key: Path

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--tls-cert", str(self.cert), "--tls-key", str(self.key))


def openssl() -> str:
    return shutil.which("openssl") or pytest.skip("there is no openssl here to make a certificate with")


def certificate_of(name: str, folder: Path) -> Certificate:
    """One that signs itself."""
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    words = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -addext"
    files = ("-keyout", str(made.key), "-out", str(made.cert))
    subprocess.run([openssl(), *words.split(), f"subjectAltName=DNS:{name}", *files], check=True, capture_output=True)
    return made

"""Under which addresses a server is reached that listens on all of them."""

import ipaddress
from pathlib import Path

import pytest

from stoker.server.addresses import is_loopback_host, machine_addresses

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens here
TABLE = """\
fd000000000000000000000000000007 02 40 00 80 eth0
fe800000000000000000000000000001 02 40 20 80 eth0
00000000000000000000000000000001 01 80 10 80 lo
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "gpu.example.com", "::1"])
def test_a_server_on_one_address_has_no_others(host: str) -> None:
    assert machine_addresses(host) == []


def test_addresses_of_the_machine_are_real_ones_that_others_reach() -> None:
    for each in map(ipaddress.ip_address, machine_addresses(EVERYWHERE)):
        assert each.version == 4
        assert not each.is_unspecified
        assert not each.is_loopback
        assert not each.is_link_local


def test_version_6_has_addresses_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "if_inet6").write_text(TABLE)
    found = machine_addresses("::", tmp_path / "if_inet6")
    assert [each for each in found if ":" in each] == ["fd00::7"]
    assert [each for each in machine_addresses("::", tmp_path / "gone") if ":" in each] == []


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("localhost", True), (EVERYWHERE, False), ("gpu", False)]
)
def test_only_loopback_is_out_of_reach_of_the_network(host: str, loopback: bool) -> None:
    assert is_loopback_host(host) is loopback

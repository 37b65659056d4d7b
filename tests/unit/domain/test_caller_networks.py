"""Which addresses count as one caller."""

import pytest

from stoker.domain.access.addresses import client_network


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_an_ipv6_address_counts_by_its_64_and_an_ipv4_address_by_itself(address: str, network: str) -> None:
    assert client_network(address) == network

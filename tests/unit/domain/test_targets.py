"""Where events may go: nowhere that is not on the public internet, however it is written."""

import pytest

from stoker.domain.errors import StokerError
from stoker.domain.webhooks.targets import check_resolved_addresses, is_public_address, parse_target


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",  # noqa: S104
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.7",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "192.0.0.192",
        "168.63.129.16",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:7f00:1::1",
        "not an address",
        "",
    ],
)
def test_an_address_that_is_not_on_the_public_internet_is_closed(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_of_the_public_internet_is_open(address: str) -> None:
    assert is_public_address(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://hooks.example.com/",
        "https://",
        "https:///path",
        "https://user:secret@hooks.example.com/",
        "https://hooks.example.com/#here",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://hooks.example.com:x/",
        "https://hooks.example.com\\@127.0.0.1/",
        "https://hooks.example.com/ x",
        "https://hooks.example.com/\r\nx: y",
        "https://höoks.example.com/",
        "https://%31%32%37.0.0.1/",
        "https://[::1/",
        "https://.example.com/",
        "https://hooks..example.com/",
        "https://*.example.com/",
        f"https://{'a' * 64}.example.com/",
        "https://[v1.x]:443:1/",
        "javascript:alert(1)",
    ],
)
def test_what_is_not_the_address_of_a_receiver_is_refused(url: str) -> None:
    with pytest.raises(StokerError, match="url: this is not a valid URL"):
        parse_target(url, private=True)


def test_plain_http_is_for_networks_of_ones_own() -> None:
    with pytest.raises(StokerError, match="webhook_private_targets"):
        parse_target("http://hooks.example.com/", private=False)
    assert parse_target("http://10.0.0.1:8000/x?y=1", private=True).url_at("10.0.0.1") == "http://10.0.0.1:8000/x?y=1"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "hooks.localhost", "hooks.localhost."])
def test_a_name_of_this_machine_is_refused_before_it_is_looked_up(host: str) -> None:
    with pytest.raises(StokerError, match="is not on the public internet"):
        parse_target(f"https://{host}/", private=False)
    assert parse_target(f"https://{host}/", private=True).host == host.lower()
    assert parse_target("https://notlocalhost/", private=False).host == "notlocalhost"


def test_the_name_stays_with_the_request_when_an_address_takes_its_place() -> None:
    target = parse_target("https://Hooks.Example.com", private=False)
    assert (target.host_header, target.url_at("2606:4700::1")) == ("hooks.example.com", "https://[2606:4700::1]:443/")
    assert parse_target("https://hooks.example.com:8443/", private=False).host_header == "hooks.example.com:8443"
    assert parse_target("https://[2606:4700::1]/", private=False).host_header == "[2606:4700::1]"


def test_a_name_is_closed_when_one_of_its_addresses_is() -> None:
    target = parse_target("https://hooks.example.com/", private=False)
    assert check_resolved_addresses(target, ["8.8.8.8", "1.1.1.1"], private=False) == "8.8.8.8"
    with pytest.raises(StokerError, match=r"hooks\.example\.com \(10\.0\.0\.1\) is not on the public internet"):
        check_resolved_addresses(target, ["8.8.8.8", "10.0.0.1"], private=False)
    assert check_resolved_addresses(target, ["10.0.0.1"], private=True) == "10.0.0.1"

import re
import tomllib

import pytest
from tests.docs import PAGES, ROOT

from stoker.domain.settings.description import describe_settings
from stoker.domain.settings.loading import resolve_settings


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    page = (ROOT / path).read_text(encoding="utf-8")
    assert page == PAGES[path](), f"{path} is out of date: run `make docs`"


def test_the_page_names_every_setting_its_variable_and_its_flag() -> None:
    page = PAGES["docs/settings.md"]()
    for doc in describe_settings():
        assert f"| `{doc.name}` | `{doc.env}` | `{doc.flag}` |" in page


def test_the_examples_of_the_page_are_settings_that_work() -> None:
    page = PAGES["docs/settings.md"]()
    [toml] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [shell] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    environ = {name: value.strip('"') for name, value in re.findall(r"export (\w+)=(.*)", shell)}
    from_file = resolve_settings({}, {"HOME": "/home/ada"}, tomllib.loads(toml))
    from_environment = resolve_settings({}, {"HOME": "/home/ada", **environ}, {})
    assert from_environment.warnings == ()
    assert from_environment.settings.port == from_file.settings.port == 8443
    assert from_environment.settings.trusted_proxies == from_file.settings.trusted_proxies
    assert (
        from_environment.settings.gpu_prices
        == from_file.settings.gpu_prices
        == {
            "AMD Instinct MI300X": 2.5,
            "*": 1.8,
        }
    )


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    rows = [line for line in PAGES["docs/settings.md"]().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}

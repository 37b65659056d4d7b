from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings import loading as module
from stoker.domain.settings.description import build_spec, describe_settings
from stoker.domain.settings.loading import ResolvedSettings, resolve_settings
from stoker.domain.settings.schema import LogFormat, LogLevel, Settings, redacted_settings
from stoker.server.config_file import load_config_file

HOME = {"HOME": "/home/ada"}
NAMES = Settings.__struct_fields__


def settled(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    toml: Mapping[str, object] | None = None,
) -> ResolvedSettings:
    return resolve_settings(flags or {}, {**HOME, **(environ or {})}, toml or {})


def refused(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    toml: Mapping[str, object] | None = None,
) -> str:
    with pytest.raises(StokerError) as caught:
        settled(flags, environ, toml)
    assert caught.value.code is ErrorCode.BAD_REQUEST
    assert caught.value.field
    return caught.value.message


def test_without_anything_the_defaults_hold() -> None:
    resolved = settled()
    assert resolved.settings == Settings(data_dir="/home/ada/.stoker")
    assert set(resolved.origins) == set(NAMES)
    assert set(resolved.origins.values()) == {"default"}
    assert resolved.warnings == ()


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() -> None:
    flags, environ, toml = {"port": 1}, {"STOKER_PORT": "2"}, {"port": 3}
    seen = [settled(flags, environ, toml), settled(None, environ, toml), settled(None, None, toml), settled()]
    assert [(each.settings.port, each.origins["port"]) for each in seen] == [
        (1, "flag --port"),
        (2, "env STOKER_PORT"),
        (3, "file"),
        (8080, "default"),
    ]


def test_a_flag_that_was_not_given_hides_nothing() -> None:
    assert settled({"port": None}, {"STOKER_PORT": "2"}).settings.port == 2


def test_a_value_that_is_overridden_is_not_judged() -> None:
    assert settled({"port": "1"}, {"STOKER_PORT": "abc"}).settings.port == 1


def test_a_default_obeys_its_own_limits() -> None:
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()


def test_every_setting_says_what_it_means_in_a_sentence() -> None:
    docs = describe_settings()
    assert [doc.name for doc in docs] == list(NAMES)
    assert all(doc.description.endswith(".") for doc in docs)


def test_a_setting_is_described_as_a_reader_would_look_it_up() -> None:
    docs = {doc.name: doc for doc in describe_settings()}
    port = docs["port"]
    assert (port.env, port.flag, port.value_syntax, port.default) == (
        "STOKER_PORT",
        "--port",
        "whole number 0 to 65535",
        "8080",
    )
    assert docs["log_format"].value_syntax == "text|json"
    assert docs["request_timeout_seconds"].default == "30"
    assert docs["data_dir"].default == "~/.stoker"
    assert docs["body_limit_bytes"].flag == "--body-limit-bytes"


def test_text_from_the_environment_becomes_the_type_of_the_setting() -> None:
    environ = {
        "STOKER_PORT": " 0 ",
        "STOKER_REQUEST_TIMEOUT_SECONDS": "2.5",
        "STOKER_LOG_FORMAT": "json",
        "STOKER_LOG_LEVEL": "WARNING",
        "STOKER_TRUSTED_PROXIES": "10.0.0.0/8, ::1 ,",
    }
    settings = settled(environ=environ).settings
    assert settings.port == 0
    assert settings.request_timeout_seconds == 2.5
    assert settings.log_format is LogFormat.JSON
    assert settings.log_level is LogLevel.WARNING
    assert settings.trusted_proxies == ("10.0.0.0/8", "::1")


def test_the_file_writes_lists_and_numbers_as_toml_does() -> None:
    settings = settled(toml={"trusted_proxies": ["10.0.0.0/8"], "request_timeout_seconds": 5}).settings
    assert settings.trusted_proxies == ("10.0.0.0/8",)
    assert settings.request_timeout_seconds == 5.0


@pytest.mark.parametrize(
    ("environ", "toml"),
    [
        ({"STOKER_GPU_PRICES": " H100 80GB = 2.50 ,*=1,"}, {}),
        ({}, {"gpu_prices": {"H100 80GB": 2.5, "*": 1}}),
    ],
)
def test_prices_are_a_table_or_a_list_of_names_and_numbers(environ: dict[str, str], toml: dict[str, object]) -> None:
    assert settled(environ=environ, toml=toml).settings.gpu_prices == {"H100 80GB": 2.5, "*": 1.0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("H100", "is not a map of numbers."),
        ("H100=much", 'is not a map of numbers. Use numbers by name, such as "H100=2.5,*=1".'),
        ("H100=-1", '{"H100": -1.0} is not a valid price.'),
        ("H100=nan", "is not a valid price."),
        ("=2", "is not a valid price. Use a GPU model and a number from 0 to 1,000,000."),
    ],
)
def test_what_is_no_price_is_refused(text: str, problem: str) -> None:
    message = refused(environ={"STOKER_GPU_PRICES": text})
    assert message.startswith("gpu_prices (env STOKER_GPU_PRICES): ")
    assert problem in message


def test_an_empty_variable_is_an_empty_value() -> None:
    environ = {"STOKER_DATABASE": "", "STOKER_TRUSTED_PROXIES": ""}
    settings = settled(None, environ, {"database": "postgresql://db/x", "trusted_proxies": ["::1"]}).settings
    assert settings.database == ""
    assert settings.trusted_proxies == ()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"STOKER_PORT": "abc"}, 'port (env STOKER_PORT): "abc" is not a whole number. Use 0 to 65535.'),
        ({"STOKER_PORT": "80.0"}, 'port (env STOKER_PORT): "80.0" is not a whole number. Use 0 to 65535.'),
        ({"STOKER_PORT": ""}, 'port (env STOKER_PORT): "" is not a whole number. Use 0 to 65535.'),
        ({"STOKER_PORT": "65536"}, 'port (env STOKER_PORT): "65536" is out of range. Use 0 to 65535.'),
        ({"STOKER_PORT": "-1"}, 'port (env STOKER_PORT): "-1" is out of range. Use 0 to 65535.'),
        (
            {"STOKER_LOG_LEVEL": "loud"},
            'log_level (env STOKER_LOG_LEVEL): "loud" is not one of the choices. Use debug, info, warning or error.',
        ),
        (
            {"STOKER_REQUEST_TIMEOUT_SECONDS": "nan"},
            'request_timeout_seconds (env STOKER_REQUEST_TIMEOUT_SECONDS): "nan" is not a number. '
            "Use more than 0 and at most 86400.",
        ),
        ({"STOKER_HOST": ""}, 'host (env STOKER_HOST): "" is empty. Leave it out for the default, 127.0.0.1.'),
    ],
)
def test_a_bad_value_is_named_with_its_origin_and_what_it_may_be(environ: dict[str, str], message: str) -> None:
    assert refused(environ=environ) == message


@pytest.mark.parametrize(
    ("toml", "part"),
    [
        ({"port": True}, "port (file): true is not a whole number."),
        ({"port": 80.0}, "port (file): 80.0 is not a whole number."),
        ({"port": 10**400}, "is out of range. Use 0 to 65535."),
        ({"host": 5}, "host (file): 5 is not text."),
        ({"request_timeout_seconds": 0}, "request_timeout_seconds (file): 0 is out of range. Use more than 0"),
        ({"request_timeout_seconds": float("inf")}, "is not a number."),
        ({"request_timeout_seconds": 10**400}, "is not a number."),
        ({"trusted_proxies": [1]}, "trusted_proxies (file): [1] is not a list of strings."),
        ({"log_format": {"a": 1}}, 'log_format (file): {"a": 1} is not one of the choices. Use text or json.'),
    ],
)
def test_a_value_of_the_wrong_type_in_the_file_is_refused(toml: dict[str, object], part: str) -> None:
    assert part in refused(toml=toml)


def test_a_bad_flag_is_named_as_it_was_typed() -> None:
    assert refused({"database_pool": "0"}).startswith('database_pool (flag --database-pool): "0" is out of range.')


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(refused(environ={"STOKER_PORT": "9" * 5000})) < 200


def test_an_unknown_name_in_the_file_is_refused_with_the_nearest_setting() -> None:
    assert refused(toml={"prot": 1}) == 'There is no setting "prot" (file). Did you mean "port"?'
    assert refused(toml={"data-dir": "x"}) == 'There is no setting "data-dir" (file). Did you mean "data_dir"?'
    assert refused(toml={"zzz": 1}) == 'There is no setting "zzz" (file). docs/settings.md lists them all.'


def test_an_unknown_flag_is_refused_when_it_has_a_value() -> None:
    assert settled({"prot": None}).settings.port == 8080
    assert refused({"prot": 1}) == 'There is no setting "prot" (flag). Did you mean "port"?'


def test_an_unknown_variable_is_a_warning_with_the_nearest_setting() -> None:
    environ = {"STOKER_PROT": "1", "STOKER_ZZZZ": "1", "OTHER": "1"}
    assert settled(environ=environ).warnings == (
        "STOKER_PROT is not a setting and has no effect. Did you mean STOKER_PORT?",
        "STOKER_ZZZZ is not a setting and has no effect.",
    )


def test_the_variables_of_the_client_are_no_warning() -> None:
    names = ("STOKER_SERVER", "STOKER_TOKEN", "STOKER_CONFIG", "STOKER_OUTPUT")
    assert settled(environ=dict.fromkeys(names, "x")).warnings == ()


@pytest.mark.parametrize(("given_name", "missing"), [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_certificate_and_key_come_together(given_name: str, missing: str) -> None:
    message = refused(toml={given_name: "/a.pem"})
    assert message == f"{missing}: is empty, but {given_name} (file) is set. Set both for HTTPS, or neither."
    both = settled(toml={"tls_cert": "/a.pem", "tls_key": "/b.pem"}).settings
    assert (both.tls_cert, both.tls_key) == ("/a.pem", "/b.pem")


@pytest.mark.parametrize("proxy", ["10.0.0.300/8", "10.0.0.5/8", "proxy.example.com", "10.0.0.0/33"])
def test_a_trusted_proxy_is_an_exact_address_range(proxy: str) -> None:
    message = refused(environ={"STOKER_TRUSTED_PROXIES": f"::1,{proxy}"})
    assert message.startswith(f'trusted_proxies (env STOKER_TRUSTED_PROXIES): "{proxy}" is not an address range.')


@pytest.mark.parametrize("database", ["", "postgresql://db/x", "postgres://u:p@db:5432/x"])
def test_the_database_is_sqlite_or_postgresql(database: str) -> None:
    assert settled(toml={"database": database}).settings.database == database


@pytest.mark.parametrize("database", ["mysql://u:hunter2@db/x", "host=db password=hunter2", "sqlite:hunter.db"])
def test_another_database_is_refused_without_showing_its_password(database: str) -> None:
    message = refused(toml={"database": database})
    assert "is not a PostgreSQL address. Use postgresql://" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("database", "shown"),
    [
        ("postgresql://ada:hunter2@db:5432/x", "postgresql://ada:***@db:5432/x"),
        ("postgresql://ada:hunter2@one:1,two:2/x", "postgresql://ada:***@one:1,two:2/x"),
        ("postgresql://:hunter2@db", "postgresql://:***@db"),
        ("postgresql://ada:p@hunter2/q@db/x", "postgresql://ada:***@db/x"),
        ("postgresql://ada@corp:hunter2@db/x", "postgresql://ada@corp:***@db/x"),
        ("postgresql://db:5432/x?user=ada&password=hunter2&a=b", "postgresql://db:5432/x?user=ada&password=***&a=b"),
        ("postgresql://db:5432/x?sslpassword=a@hunter2", "postgresql://db:5432/x?sslpassword=***"),
        ("postgresql://ada@db:5432/x", "postgresql://ada@db:5432/x"),
        ("", ""),
    ],
)
def test_a_password_in_the_address_is_never_shown(database: str, shown: str) -> None:
    settings = Settings(database=database)
    assert redacted_settings(settings)["database"] == shown
    assert "hunter2" not in repr(settings)


def test_what_is_shown_is_plain_data() -> None:
    shown = redacted_settings(Settings(trusted_proxies=("::1",)))
    assert list(shown) == list(NAMES)
    assert shown["log_format"] == "text"
    assert msgspec.json.decode(msgspec.json.encode(shown))["trusted_proxies"] == ["::1"]


def test_a_path_may_begin_with_the_home_directory() -> None:
    toml = {"data_dir": "~/a", "tls_cert": "~/c.pem", "tls_key": "k.pem"}
    settings = settled(toml=toml).settings
    assert (settings.data_dir, settings.tls_cert, settings.tls_key) == ("/home/ada/a", "/home/ada/c.pem", "k.pem")
    assert resolve_settings({"data_dir": "~"}, {"HOME": "/"}, {}).settings.data_dir == "/"


def test_a_home_that_is_not_known_is_refused() -> None:
    assert refused({"data_dir": "~bob/x"}).startswith('data_dir (flag --data-dir): "~bob/x" starts with a "~"')
    with pytest.raises(StokerError, match="Use an absolute path"):
        resolve_settings({}, {}, {})


class Sample(msgspec.Struct, frozen=True):
    """Kinds that no setting has yet, and one may have tomorrow."""

    quick: Annotated[bool, Meta(description="A switch.")] = False
    count: Annotated[int, Meta(description="No limits.")] = 1
    ratio: Annotated[float, Meta(ge=0, description="One limit.")] = 0.5


def sample(name: str, raw: object) -> object:
    [field] = [field for field in msgspec.structs.fields(Sample) if field.name == name]
    return module._parse_value(build_spec(field), raw, "here")


@pytest.mark.parametrize("word", ["1", "true", "YES", "On", " on ", True])
def test_a_switch_is_turned_on_by_these_words(word: object) -> None:
    assert sample("quick", word) is True


@pytest.mark.parametrize("word", ["0", "false", "NO", "Off", False])
def test_a_switch_is_turned_off_by_these_words(word: object) -> None:
    assert sample("quick", word) is False


@pytest.mark.parametrize("word", ["", "maybe", "2", 1, None])
def test_a_switch_is_never_turned_by_anything_else(word: object) -> None:
    with pytest.raises(StokerError, match=r"is not a boolean. Use true or false\."):
        sample("quick", word)


def test_a_kind_without_limits_is_still_put_in_words() -> None:
    specs = {field.name: build_spec(field) for field in msgspec.structs.fields(Sample)}
    assert {name: spec.value_syntax for name, spec in specs.items()} == {
        "quick": "true|false",
        "count": "whole number",
        "ratio": "number at least 0",
    }


@given(st.sampled_from(NAMES), st.text())
def test_any_text_is_a_setting_or_a_stoker_error(name: str, text: str) -> None:
    with suppress(StokerError):
        settled(environ={f"STOKER_{name.upper()}": text})


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates())
toml_values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@given(st.sampled_from(NAMES), toml_values)
def test_any_value_in_the_file_is_a_setting_or_a_stoker_error(name: str, value: object) -> None:
    with suppress(StokerError):
        settled(toml={name: value})


def unreadable(path: Path) -> str:
    with pytest.raises(StokerError) as caught:
        load_config_file(str(path))
    assert caught.value.code is ErrorCode.BAD_REQUEST
    return caught.value.message.replace(str(path), "PATH")


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "stoker.toml"
    path.write_text('port = 9000\r\ntrusted_proxies = ["::1"]\r\n')
    assert load_config_file(str(path)) == {"port": 9000, "trusted_proxies": ["::1"]}


def test_no_path_means_no_file() -> None:
    assert load_config_file(None) == {}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    message = unreadable(tmp_path / "none.toml")
    assert message == 'There is no settings file "PATH". Check the path, or leave it out.'


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert unreadable(tmp_path) == 'The settings file "PATH" cannot be read: Is a directory.'
    with pytest.raises(StokerError, match="cannot be read"):
        load_config_file("a\0b")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"port = 1\nhost = oops\n", "line 2, column 8"),
        (b'port = 1\n\nhost = "x', "line 3"),
        (b"port = 1\nport = 2\n", "line 2, column 9"),
        (b"port = 1\n\nhost = '\xff'\n", "line 3: this is not UTF-8 text"),
        (b"port = " + b"9" * 5000, "line 1"),
        (b"port = " + b"[" * 100_000, "line 1"),
    ],
)
def test_a_mistake_in_the_file_is_placed_by_its_line(tmp_path: Path, content: bytes, place: str) -> None:
    path = tmp_path / "stoker.toml"
    path.write_bytes(content)
    assert unreadable(path).startswith(f'The settings file "PATH", {place}')


@pytest.mark.parametrize(
    "url",
    ["prom:9090", "ada:hunter2@prom:9090", "ftp://prom", "http://", "http://ada:hunter2@prom:99999", "http://p/?a=b"],
)
def test_what_is_no_address_of_a_prometheus_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(StokerError) as refused:
        resolve_settings({}, {**HOME, "STOKER_PROMETHEUS_URL": url}, {})
    assert refused.value.field == "prometheus_url"
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("name", ["prometheus_prefix", "prometheus_node_label"])
def test_what_goes_into_a_query_is_a_word(name: str) -> None:
    assert resolve_settings({name: "site_1"}, HOME, {})
    for word in ("a-b", '"', "1a", "a\n", "{}"):
        with pytest.raises(StokerError, match="letters, digits"):
            resolve_settings({name: word}, HOME, {})


def test_under_demo_the_default_cluster_is_the_simulated_one_unless_it_is_set() -> None:
    home = {"HOME": "/home/x"}
    assert resolve_settings({}, home, {}).settings.default_cluster == "local"
    demo = resolve_settings({"demo": "true"}, home, {})
    assert (demo.settings.default_cluster, demo.origins["default_cluster"]) == ("demo", "flag --demo")
    chosen = resolve_settings({"demo": "true"}, {**home, "STOKER_DEFAULT_CLUSTER": "local"}, {})
    assert chosen.settings.default_cluster == "local"


def test_a_demo_has_a_data_dir_of_its_own_unless_one_is_set() -> None:
    home = {"HOME": "/home/x"}
    assert resolve_settings({}, home, {}).settings.data_dir == "/home/x/.stoker"
    demo = resolve_settings({"demo": "true"}, home, {})
    assert (demo.settings.data_dir, demo.origins["data_dir"]) == ("/home/x/.stoker-demo", "flag --demo")
    for chosen in (
        resolve_settings({"demo": "true", "data_dir": "/srv"}, home, {}),
        resolve_settings({"demo": "true"}, {**home, "STOKER_DATA_DIR": "/srv"}, {}),
    ):
        assert chosen.settings.data_dir == "/srv"

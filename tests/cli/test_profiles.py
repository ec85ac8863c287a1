"""Addresses and logins: from flags, variables and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.cli.failing import UsageError
from stratamq.cli.profiles import options_for, profiles_file
from stratamq.client import Login, Server, TlsFiles

SECRET = "correct horse"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "word").write_text(SECRET + "\n")
    (tmp_path / "word").chmod(0o600)
    return tmp_path


def env_of(folder: Path, text: str, mode: int = 0o600, **more: str) -> dict[str, str]:
    file = folder / "profiles.toml"
    file.write_text(text)
    file.chmod(mode)
    return {"STRATAMQ_PROFILES": str(file), **more}


def test_without_anything_it_is_this_machine(folder: Path) -> None:
    options = options_for(None, None, {}, {"XDG_CONFIG_HOME": str(folder)})
    assert options.servers == (Server("localhost", 9092),)
    assert (options.login, options.tls) == (None, None)


def test_a_profile_has_address_login_and_tls(folder: Path) -> None:
    text = """
        [work]
        server = "a:1,b:2"
        user = "alice"
        password_file = "word"
        mechanism = "SCRAM-SHA-512"
        ca = "ca.pem"
        """
    options = options_for(None, "work", {}, env_of(folder, text))
    assert options.servers == (Server("a", 1), Server("b", 2))
    assert options.login == Login(mechanism="SCRAM-SHA-512", user="alice", password=SECRET)
    assert options.tls == TlsFiles(authorities=folder / "ca.pem")
    assert SECRET not in repr(options)


def test_flags_win_over_variables_and_these_over_the_profile(folder: Path) -> None:
    env = env_of(folder, '[p]\nserver = "a"\nuser = "u"\npassword = "p"\ntls = true\n')
    env |= {"STRATAMQ_SERVER": "b", "STRATAMQ_USER": "bob", "STRATAMQ_TLS": "false"}
    options = options_for("c:7", "p", {"sasl.mechanism": "PLAIN"}, env)
    assert options.servers == (Server("c", 7),)
    assert options.login == Login(mechanism="PLAIN", user="bob", password="p")
    assert options.tls is None


def test_variables_alone_are_enough(folder: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(folder), "STRATAMQ_SERVERS": "a:1", "STRATAMQ_USER": "alice"}
    options = options_for(None, None, {}, env | {"STRATAMQ_PASSWORD_FILE": str(folder / "word")})
    assert options.login == Login(mechanism="SCRAM-SHA-256", user="alice", password=SECRET)


def test_the_file_is_in_the_folder_for_configs(folder: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(folder)}
    assert profiles_file(env) == folder / "stratamq" / "profiles.toml"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_password_that_others_can_reach_is_refused(folder: Path, mode: int) -> None:
    env = env_of(folder, '[p]\nuser = "u"\npassword = "p"\n[q]\nserver = "a"\n', mode)
    with pytest.raises(UsageError, match="chmod 600"):
        options_for(None, "q", {}, env)
    (folder / "word").chmod(mode)
    with pytest.raises(UsageError, match="chmod 600"):
        options_for(None, None, {}, {"STRATAMQ_PASSWORD_FILE": str(folder / "word")})


def test_a_file_without_a_password_may_be_read_by_all(folder: Path) -> None:
    env = env_of(folder, '[p]\nserver = "a"\nuser = "u"\npassword_file = "word"\n', 0o644)
    assert options_for(None, "p", {}, env).login is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[p", "is not TOML"),
        ("[q]\n", "has no profile 'p'; it has: q"),
        ('[p]\nsever = "a"\n', "'sever' is not one of server"),
        ("[p]\nserver = 1\n", "server must be text in quotes"),
        ('[p]\ntls = "yes"\n', "tls must be true or false"),
        ('[p]\nuser = "u"\n', "sasl.password is needed"),
        ('[p]\nserver = "a:b"\n', "the port must be a number"),
        ('[p]\npassword_file = "none"\n', "cannot be read"),
    ],
)
def test_a_slip_says_where_it_is(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        options_for(None, "p", {}, env_of(folder, text))


def test_a_profile_without_a_file(folder: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        options_for(None, "p", {}, {"STRATAMQ_PROFILES": str(folder / "none.toml")})

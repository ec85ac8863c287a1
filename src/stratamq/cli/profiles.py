"""Where a command finds its node and how it logs in: flags, environment variables, profiles.

A flag wins over the environment, the environment over the profile. Profiles are tables of a TOML
file:

    [production]
    server = "mq1.example.com:9093"
    user = "alice"
    password_file = "alice.password"    # beside this file; or `password`
    mechanism = "SCRAM-SHA-512"
    ca = "ca.pem"                       # TLS with this authority; `tls = true` with the system's
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stratamq.cli.failing import UsageError
from stratamq.client.options import ClientOptions, options_of
from stratamq.model.errors import InvalidConfig

LOCAL = "localhost:9092"
RETRY_MS = "3000"
"""A person waits: a node that is not there is reported soon."""

DEFAULT_PROFILE = "default"
FILES = ("ca", "certificate", "key", "password_file")
PROPERTIES = {
    "user": "sasl.username",
    "password": "sasl.password",
    "mechanism": "sasl.mechanism",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "key": "ssl.key.location",
    "client_id": "client.id",
}
FIELDS = ("server", "tls", "password_file", *PROPERTIES)


def options_for(
    server: str | None,
    profile: str | None,
    properties: Mapping[str, str],
    env: Mapping[str, str],
) -> ClientOptions:
    """UsageError says what is wrong, and where it was given."""
    said = from_env(env)
    if server:
        said["server"] = server
    name = profile or env.get("STRATAMQ_PROFILE")
    file = profiles_file(env)
    if name or ("server" not in said and file.exists()):
        said = read_profile(file, name) | said
    try:
        settings = {"retry.ms": RETRY_MS, **settings_of(said), **properties}
        return options_of(said.get("server", LOCAL), settings)
    except InvalidConfig as error:
        raise UsageError(str(error)) from None


def profiles_file(env: Mapping[str, str]) -> Path:
    if env.get("STRATAMQ_PROFILES"):
        return Path(env["STRATAMQ_PROFILES"])
    base = env.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path.home() / ".config"
    return folder / "stratamq" / "profiles.toml"


def from_env(env: Mapping[str, str]) -> dict[str, str]:
    """What variables such as STRATAMQ_USER say, by the name of a profile's field."""
    variables = {name: f"STRATAMQ_{name.upper()}" for name in FIELDS if name != "client_id"}
    said = {name: env[variable] for name, variable in variables.items() if env.get(variable)}
    if "server" not in said and env.get("STRATAMQ_SERVERS"):
        said["server"] = env["STRATAMQ_SERVERS"]
    return _with_password(said, Path())


def read_profile(file: Path, name: str | None) -> dict[str, str]:
    """The fields of a profile. Without a name, of the one called `default`, if it exists."""
    import tomllib  # milliseconds, for those who have profiles

    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"profiles in {file} cannot be read ({error.strerror}); STRATAMQ_PROFILES names "
            "another file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML ({error})") from None
    if any("password" in one for one in tree.values() if isinstance(one, dict)):
        check_private(file)
    fields = tree.get(name or DEFAULT_PROFILE)
    if fields is None and name is None:
        return {}
    if not isinstance(fields, dict):
        known = ", ".join(one for one, fields in tree.items() if isinstance(fields, dict))
        raise UsageError(f"{file} has no profile {name!r}; it has: {known or 'none'}")
    return _with_password(_checked(fields, f"{file}, profile {name or DEFAULT_PROFILE!r}"), file)


def _checked(fields: Mapping[str, Any], place: str) -> dict[str, str]:
    for name, value in fields.items():
        if name not in FIELDS:
            raise UsageError(f"{place}: {name!r} is not one of {', '.join(FIELDS)}")
        if not isinstance(value, bool if name == "tls" else str):
            kind = "true or false" if name == "tls" else "text in quotes"
            raise UsageError(f"{place}: {name} must be {kind}")
    return {name: str(value).lower() if name == "tls" else value for name, value in fields.items()}


def _with_password(said: dict[str, str], beside: Path) -> dict[str, str]:
    """Paths from the folder of the file they stand in, and the password read from its own file."""
    said |= {name: str(beside.parent / said[name]) for name in FILES if name in said}
    if "password_file" in said:
        file = Path(said.pop("password_file"))
        try:
            check_private(file)
            said["password"] = file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise UsageError(f"the password in {file} cannot be read ({error.strerror})") from None
    return said


def check_private(file: Path) -> None:
    """A password that others can read is refused rather than used."""
    mode = file.stat().st_mode
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"{file} holds a password and other users can reach it: chmod 600 {file}")


def settings_of(said: Mapping[str, str]) -> dict[str, str]:
    """The properties of a client that profile fields stand for."""
    settings = {PROPERTIES[name]: value for name, value in said.items() if name in PROPERTIES}
    if "tls" in said:
        is_tls = said["tls"].lower() in ("1", "true", "yes")
    else:
        is_tls = "ca" in said or "certificate" in said
    protocol = ("SASL_" if "user" in said else "") + ("SSL" if is_tls else "PLAINTEXT")
    return {"security.protocol": protocol, **settings}

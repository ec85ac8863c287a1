"""SCRAM and PLAIN, token by token: the RFC's own example, another implementation, and nonsense."""

from __future__ import annotations

import base64
import contextlib
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.broker.kafka.security.scram import (
    AuthenticationFailed,
    ScramExchange,
    hashed,
    is_password,
    keyed,
    new_credential,
    read_first,
    read_plain,
    salted_password,
    unknown_user_credential,
)
from stratamq.broker.kafka.security.users_api import commands_of
from stratamq.meta.access import Credential, Mechanism, SaveCredential
from stratamq.model.errors import InvalidInput
from stratamq.wire.kafka.protocol.messages.sasl import ScramCredentialUpsertion

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.scram import ScramClient

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = new_credential("user", Mechanism.SHA_256, b"pencil", 4096, SALT)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def exchange(credential: Credential = PENCIL, first: bytes = FIRST) -> ScramExchange:
    return ScramExchange(read_first(first), NONCE, credential)


def test_the_example_of_rfc_7677() -> None:
    talk = exchange()
    assert talk.server_first == f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert talk.finish(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("password", ["secret", "päßwörd, =", "x" * 300])
def test_another_implementation_agrees(mechanism: Mechanism, password: str) -> None:
    credential = new_credential("Jürgen", mechanism, password.encode(), 4096)
    client: Any = ScramClient("Jürgen", password, str(mechanism))
    heard = read_first(client.first_message())
    assert heard.user == "Jürgen"
    talk = ScramExchange(heard, heard.nonce + "ours", credential)
    client.process_server_first_message(talk.server_first.encode())
    answer = talk.finish(client.final_message())
    client.process_server_final_message(answer)  # raises when we did not prove ourselves


def test_names_are_unescaped() -> None:
    assert read_first(b"n,,n=a=2Cb=3Dc,r=x").user == "a,b=c"
    assert read_first(b"y,a=u,n=u,r=x").user == "u"


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_wrong_password_proves_nothing(mechanism: Mechanism) -> None:
    client: Any = ScramClient("user", "guess", str(mechanism))
    heard = read_first(client.first_message())
    talk = ScramExchange(
        heard, heard.nonce + "x", new_credential("user", mechanism, b"right", 4096)
    )
    client.process_server_first_message(talk.server_first.encode())
    final = client.final_message()
    with pytest.raises(AuthenticationFailed):
        talk.finish(final)


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"dHzb", b"dHzc"),
        FINAL.replace(b"k0,", b"k1,"),
        FINAL.replace(b"biws", b"eSws"),
        FINAL.replace(b"dVQ=", b""),
        FINAL.replace(b"c=biws,", b""),
        b"",
        b"\xff",
        b"c=biws," * 2000,
    ],
)
def test_a_token_that_was_tampered_with_proves_nothing(final: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange().finish(final)


def signed(talk: ScramExchange, without_proof: str) -> bytes:
    """What somebody sends who knows the password, whatever else they say."""
    mechanism = Mechanism.SHA_256
    salted = salted_password(mechanism, b"pencil", SALT, 4096)
    client_key = keyed(mechanism, salted, b"Client Key")
    said = f"{talk.first.bare},{talk.server_first},{without_proof}".encode()
    signature = keyed(mechanism, hashed(mechanism, client_key), said)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("without_proof", ["c=biws,r=another", "c=eSws,r=" + NONCE, "c=!!!!,r=x"])
def test_a_proof_of_another_exchange_is_no_proof_of_this(without_proof: str) -> None:
    talk = exchange()
    assert talk.finish(signed(talk, f"c=biws,r={NONCE}"))
    assert talk.finish(signed(talk, f"c=biws,r={talk.first.nonce}{NONCE}")), "old librdkafka"
    with pytest.raises(AuthenticationFailed):
        talk.finish(signed(talk, without_proof))


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=root,n=user,r=abc",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,m=x,n=user,r=abc",
        b"n,,n=user,r=",
        b"\xff\xfe",
        b"n,,n=" + b"u" * 9000 + b",r=abc",
    ],
)
def test_what_is_not_offered_is_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_first(first)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(token: bytes) -> None:
    for read in (read_first, read_plain, exchange().finish):
        with contextlib.suppress(AuthenticationFailed):
            read(token)


def test_plain() -> None:
    assert read_plain(b"\0user\0pencil") == ("user", b"pencil")
    assert read_plain(b"user\0user\0pencil") == ("user", b"pencil")
    assert "pencil" not in repr(read_plain(b"\0user\0pencil"))
    assert is_password(PENCIL, b"pencil")
    assert not is_password(PENCIL, b"pencil ")
    bad = (b"", b"\0\0", b"\0user\0", b"\0\0pw", b"root\0user\0pw", b"\0a\0b\0c", b"\0\xff\0p")
    for token in bad:
        with pytest.raises(AuthenticationFailed):
            read_plain(token)


def test_nobody_looks_the_same_each_time_and_to_nobody_else() -> None:
    def salt(user: str, secret: bytes = b"s", mechanism: Mechanism = Mechanism.SHA_256) -> str:
        return unknown_user_credential(secret, user, mechanism, 4096).salt

    assert salt("eve") == salt("eve")
    others = {salt("eva"), salt("eve", b"t"), salt("eve", mechanism=Mechanism.SHA_512)}
    assert len(others | {salt("eve")}) == 4
    assert len(salt("eve")) == len(new_credential("u", Mechanism.SHA_256, b"p", 4096).salt)


def test_what_is_kept_is_not_the_password() -> None:
    kept = new_credential("user", Mechanism.SHA_512, b"hunter2", 4096)
    again = new_credential("user", Mechanism.SHA_512, b"hunter2", 4096)
    assert kept.salt != again.salt
    assert kept.stored_key != again.stored_key
    assert "hunter2" not in f"{kept.salt}{kept.stored_key}{kept.server_key}"
    assert b"hunter2".hex() not in f"{kept.salt}{kept.stored_key}{kept.server_key}"


@pytest.mark.parametrize("mechanism", [1, 2])
@pytest.mark.parametrize(("salt", "salted"), [(1, 32), (7, 64), (1024, 33), (24, 1), (24, 500)])
def test_salts_and_salted_passwords_of_any_size_are_kept(
    mechanism: int, salt: int, salted: int
) -> None:
    (command,) = commands_of([upsertion(mechanism, salt, salted)])
    assert isinstance(command, SaveCredential)
    assert len(command.credential.salt) == 2 * salt


@pytest.mark.parametrize(("salt", "salted"), [(0, 32), (1025, 32), (24, 0)])
def test_sizes_that_no_client_could_use_are_refused(salt: int, salted: int) -> None:
    with pytest.raises(InvalidInput):
        commands_of([upsertion(1, salt, salted)])


def upsertion(mechanism: int, salt: int, salted: int) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name="eve",
        mechanism=mechanism,
        iterations=4096,
        salt=b"s" * salt,
        salted_password=b"p" * salted,
    )

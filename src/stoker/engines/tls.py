"""Checks of the certificates that a server shows to a daemon, before they are stored."""

from pathlib import PurePosixPath

from stoker.domain.cluster.credential import ClusterCredential
from stoker.domain.errors import bad_request

TLS_NAMES = ("ca", "certificate", "key")
"""The values of a TLS credential: the authority of the daemon, and the certificate and key of this client."""


def check_tls_credential(credential: ClusterCredential) -> None:
    """Raise BAD_REQUEST unless all three are there and the key belongs to the certificate. Files are read later, when
    the server connects."""
    if not credential.values:
        return
    for name in TLS_NAMES:
        if not credential.values.get(name):
            raise bad_request(f"tls.{name}", "it is missing.")
    if unknown := sorted(credential.values.keys() - set(TLS_NAMES)):
        raise bad_request(f"tls.{unknown[0]}", "there is no such part of a TLS credential.")
    if credential.by_reference:
        for path in credential.values.values():
            if not PurePosixPath(path).is_absolute():
                raise bad_request("tlsDir", f'"{path}" is not an absolute path on the server.')
        return
    _check_pem(*(credential.values[name] for name in TLS_NAMES))


def _check_pem(ca: str, certificate: str, key: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        x509.load_pem_x509_certificates(ca.encode())
    except ValueError as error:
        raise bad_request("tls.ca", "it is not a certificate in PEM format.") from error
    try:
        client = x509.load_pem_x509_certificates(certificate.encode())[0]
    except ValueError as error:
        raise bad_request("tls.certificate", "it is not a certificate in PEM format.") from error
    try:
        private = load_pem_private_key(key.encode(), password=None)
    except TypeError as error:
        raise bad_request("tls.key", "it is protected by a password. Give a key without one.") from error
    except ValueError as error:
        raise bad_request("tls.key", "it is not a private key in PEM format.") from error
    certified, own = (
        each.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for each in (client, private)
    )
    if certified != own:
        raise bad_request("tls.key", "it does not belong to the certificate.")

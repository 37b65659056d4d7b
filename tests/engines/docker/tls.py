"""Certificates of a Docker daemon on TCP and of its clients, signed by an authority of the tests."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def make_certificates(folder: Path) -> None:
    """Write ca.pem, and cert.pem and key.pem for `server` and `client`, each in a directory of its own."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _sign("stoker tests", authority_key, "stoker tests", authority_key, is_authority=True)
    for name in ("server", "client"):
        own = folder / name
        own.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(name, key, "stoker tests", authority_key, is_authority=False)
        (own / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
        (own / "cert.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (own / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )

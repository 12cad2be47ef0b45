"""Certificates of a fleet: an authority, and the certificates of servers and nodes that it signs.

`cryptography` is installed with asyncssh.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ptyctl.api.errors import PtyctlError, invalid

#: Names of the authority's certificate and key in the folder of a site.
CA_FILE, CA_KEY_FILE = "ca.pem", "ca.key"
#: Validity of certificates (days). A certificate is replaced by hand, with new files: one that expires stops its node.
DAYS = 3650
#: Certificates begin to be valid this long before they are made, for clocks that are slow (minutes).
_EARLIER_MINUTES = 60


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority of a fleet. Who has its key can make a certificate that all nodes and servers accept."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str) -> Authority:
        """Make a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(f"ptyctl fleet {name}")
        builder = _builder(subject, subject, key.public_key()).add_extension(x509.BasicConstraints(True, 0), critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # signs certificates and CRLs
        return cls(builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Read the authority from the folder of another site.

        Raises:
            PtyctlError: INVALID_ARGUMENT.
        """
        try:
            certificate = x509.load_pem_x509_certificate((folder / CA_FILE).read_bytes())
            key = serialization.load_pem_private_key((folder / CA_KEY_FILE).read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
                raise ValueError("the key is not that of the certificate")
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
            message = f"{folder} has no authority of a fleet: {error}"
            raise invalid(message, hint=f"name the folder of the first ptyctl fleet init, with {CA_KEY_FILE}") from None
        return cls(certificate, key)

    def certificate_pem(self) -> str:
        """Return the certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self) -> str:
        """Return the private key as PEM."""
        return _key_pem(self.key)

    def issue(self, name: str, hosts: Sequence[str] = ()) -> str:
        """Return a new key and its certificate as PEM: of a server with its addresses, or of a node, which has none."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = _builder(_name(name), self.certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_address, hosts))), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM).decode()


def sign(file: Path, data: bytes) -> tuple[str, bytes]:
    """Sign data with the key in a file; return the file's certificate as PEM, and the signature.

    Raises:
        PtyctlError: INVALID_ARGUMENT.
    """
    try:
        content = file.read_bytes()
        certificate = x509.load_pem_x509_certificate(content)
        key = serialization.load_pem_private_key(content, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is of another kind")
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unreadable(file, error) from None
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.sign(data, ec.ECDSA(hashes.SHA256()))


def signer_of(ca: Path, certificate_pem: str, signature: bytes, data: bytes) -> str:
    """Return the name in the certificate whose key has signed the data.

    Raises:
        ValueError: the signature or the certificate is not valid, or another authority than that in `ca` has issued it.
    """
    try:
        authority = x509.load_pem_x509_certificate(ca.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{ca} is not a certificate: {error}") from None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        certificate.verify_directly_issued_by(authority)
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("its key is of another kind")
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, TypeError):
        raise ValueError("the signature is not one of this fleet, or the text was changed") from None
    now = datetime.datetime.now(datetime.UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise ValueError("the certificate of its signer is not valid now")
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def days_left(path: Path) -> int:
    """Return the days until the certificate in a file expires.

    Raises:
        PtyctlError: INVALID_ARGUMENT.
    """
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days


def _unreadable(path: Path, error: Exception) -> PtyctlError:
    return invalid(f"{path} is not a certificate: {error}", hint="use the files of one ptyctl fleet init")


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=_EARLIER_MINUTES)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=DAYS))
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()

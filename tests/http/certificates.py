"""Certificates for tests, made with the openssl program."""

import subprocess

NAMES = "subjectAltName=DNS:localhost,DNS:chat.example.com,IP:127.0.0.1"


def openssl(*arguments, **more):
    return subprocess.run(
        ["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60, **more
    )


def make(folder, name="server", days=2, serial=1):
    """A certificate that signs itself, for localhost; gives the paths of certificate and key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
        "-out", cert, "-days", days, "-set_serial", serial, "-subj", "/CN=localhost", "-addext", NAMES,
    )  # fmt: skip
    return cert, key

"""What the build host knows about its network, for build steps: CA bundle and mirrors as secrets, proxies by name."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from factory.say import Refused

HOST_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
MIRRORS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


class secrets:
    """The build's secrets as options: the CA bundle, and the mirrors in a file that is gone afterwards."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.environ = environ
        self.file = folder / f".mirrors-{os.getpid()}-{threading.get_ident()}"

    def __enter__(self) -> list[str]:
        options = []
        if bundle := ca_bundle(self.environ):
            options += ["--secret", f"id=ca,src={bundle}"]
        if lines := mirrors(self.environ):
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
            options += ["--secret", f"id=mirrors,src={self.file}"]
        return options

    def __exit__(self, *_: object) -> None:
        self.file.unlink(missing_ok=True)


def ca_bundle(environ: Mapping[str, str]) -> str | None:
    """The host's CA bundle: builds trust whom the host trusts. RIG_CA_BUNDLE names another, or none."""
    chosen = environ.get("RIG_CA_BUNDLE") or environ.get("SSL_CERT_FILE") or HOST_BUNDLE
    if chosen == "none":
        return None
    if os.path.isfile(chosen):
        return chosen
    if "RIG_CA_BUNDLE" in environ:
        raise Refused(f"RIG_CA_BUNDLE={chosen}: no such file; name a PEM bundle, or none", 78)
    return None


def mirrors(environ: Mapping[str, str]) -> list[str]:
    """Lines NAME=value of the package mirrors set on the host; uv is told pip's where it has none of its own."""
    lines = [f"{name}={environ[name]}" for name in MIRRORS if environ.get(name)]
    if environ.get("PIP_INDEX_URL") and not (environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")):
        lines.append(f"UV_DEFAULT_INDEX={environ['PIP_INDEX_URL']}")
    return lines

"""The base image: local, else pulled, else bootstrapped from the distribution's packages."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from factory.engine import Engine, apt_install
from factory.say import Refused, say

BOOTSTRAPPED = "trainrig/rootfs"
# What debian:*-slim leaves out as well; licences stay, they are a condition of redistribution.
SLIM = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/lintian/*",
)


class Base(NamedTuple):
    """`reference` goes into FROM; `name` is what was asked for; `digest` a registry digest or an image id; `origin` is
    "local", "pulled" or "bootstrapped"."""

    reference: str
    name: str
    digest: str
    origin: str


def find_base(engine: Engine, name: str, codename: str) -> Base:
    """The base image `name`; where it is neither local nor to be pulled, a root file system of Debian `codename`.

    Refused when there is no way to any of the three.
    """
    if (base := _local(engine, name)) is not None:
        say(f"base image {name}: present locally ({base.digest})")
        return base
    if not name.startswith("trainrig/"):
        pulled = engine.call("pull", "--quiet", name, timeout_s=900)
        if pulled.returncode == 0 and (base := _local(engine, name)) is not None:
            say(f"base image {name}: pulled ({base.digest})")
            return base._replace(origin="pulled")
    own = f"{BOOTSTRAPPED}:{codename}"
    if (base := _local(engine, own)) is not None:
        say(f"base image {name}: no registry has it here; using {own}, bootstrapped earlier ({base.digest})")
        return base._replace(name=name, origin="bootstrapped")
    _bootstrap(engine, own, codename, name)
    if (base := _local(engine, own)) is None:
        raise Refused(f"{own} was imported but the engine does not know it")
    say(f"base image {name}: bootstrapped with mmdebstrap as {own} ({base.digest})")
    return base._replace(name=name, origin="bootstrapped")


def _local(engine: Engine, name: str) -> Base | None:
    done = engine.call("image", "inspect", "--format", "{{.Id}} {{range .RepoDigests}}{{.}} {{end}}", name)
    if done.returncode:
        return None
    identity, *digests = done.stdout.split()
    return Base(name, name, digests[0].partition("@")[2] if digests else identity, "local")


def _bootstrap(engine: Engine, tag: str, codename: str, name: str) -> None:
    say(f"base image {name}: not local and no registry answers; bootstrapping Debian {codename} (about a minute)")
    if shutil.which("mmdebstrap") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise Refused(
                f"{name} cannot be pulled and mmdebstrap is missing: install it, or set BASE_IMAGE to an image you have"
            )
        apt_install("mmdebstrap")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as scratch:
        tar = Path(scratch, "root.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", *(f"--dpkgopt={option}" for option in SLIM)]
        done = subprocess.run([*command, codename, str(tar)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(f"mmdebstrap failed: {(done.stderr.strip() or 'no output').splitlines()[-1]}")
        imported = engine.call("import", "--change", 'CMD ["bash"]', str(tar), tag, timeout_s=600)
    if imported.returncode:
        raise Refused(f"the engine could not import the root file system: {imported.stderr.strip()}")

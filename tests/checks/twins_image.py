"""Fixtures of the family image."""

import functools

from rig.image import Account
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100
from tests.checks.twin import Twin, changed

# `docker run --user 12345:0`: the boot makes up a home and adds a passwd entry, so that is innocent.
STRANGER = Account(12345, home_variable="/", variable_writable=False, passwd_writable=True, makeshift=True)
LOCKED = STRANGER._replace(passwd_writable=False, makeshift=False)  # another group, a root that is read-only, no tmpfs
NAMED = STRANGER._replace(name="user", home="/run/rig/home", home_exists=True, home_writable=True, home_variable=None)
NOBODY = STRANGER._replace(uid=65534, name="nobody", home="/nonexistent", home_exists=False, home_writable=False)
HOMELESS = Account(4242, "trainer", "/nowhere", False, False, "/nowhere", False)
RIG = ("/opt/rig", "/opt/rig/boot.pack", "/opt/rig/rig/root.py")


@functools.cache
def inside() -> Snapshot:
    """The machine, seen from a container."""
    now: Snapshot = changed(h100(), machine__surroundings__container="docker")
    return now


def of(account: Account) -> Snapshot:
    now: Snapshot = changed(inside(), image__account=account)
    return now


TWINS = (
    Twin(
        "image_holds_no_secrets",
        changed(inside(), image__secrets=("/root/.ssh/id_ed25519",)),
        inside(),
        says="/root/.ssh/id_ed25519",
        fix="change it",
        domain="image",
    ),
    Twin(
        "image_holds_no_caches",
        changed(inside(), image__caches=("/root/.cache/pip (8.0 MB)",)),
        inside(),
        says="/root/.cache/pip (8.0 MB)",
        fix="delete it",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "files_are_not_for_everybody_to_write",
        changed(inside(), image__loose=RIG),
        inside(),
        says="everybody can write /opt/rig and 2 more",
        fix="chmod -R go-w /opt/rig",
        domain="image",
    ),
    Twin(
        "files_are_not_for_everybody_to_write",
        changed(inside(), image__account=NAMED, image__rig_files_writable=True),
        changed(inside(), image__account=NAMED, image__rig_files_writable=False),
        says="/opt/rig can be changed by the user 12345",
        fix="chmod",
        domain="image",
    ),
    Twin(
        "setuid_programs_are_known",
        changed(inside(), image__setuid=("/usr/bin/su", "/opt/tool/become")),
        inside(),
        says="/opt/tool/become",
        fix="chmod u-s",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "tini_is_in_the_image",
        changed(inside(), image__tini=None),
        inside(),
        says="containers do not start",
        fix="apt-get install tini",
        domain="image",
    ),
    Twin(
        "process_1_reaps_and_passes_signals",
        changed(inside(), image__init="bash"),
        changed(inside(), image__init="docker-init"),
        says="process 1 is bash",
        fix="--init",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "rig_can_be_started",
        changed(inside(), image__entrypoint=False),
        inside(),
        says="/usr/local/bin/rig cannot be run",
        fix="chmod 0755",
        domain="image",
    ),
    Twin(
        "tools_are_in_the_image",
        changed(inside(), image__tools=("ssh", "sshd", "pkill", "ibv_devinfo", "ib_write_bw")),
        changed(inside(), image__tools=("ssh", "sshd", "pdsh", "pkill", "ibv_devinfo", "ib_write_bw")),
        says="pdsh is not on PATH",
        fix="pdsh",
        domain="image",
        outcome="warn",
        reported=("microsoft/superbenchmark#766",),
    ),
    Twin(
        "account_has_a_name",
        of(LOCKED),
        of(STRANGER),
        says="the user 12345 has no name, and none can be added",
        fix="--user UID:0",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "account_home_exists",
        of(HOMELESS),
        of(STRANGER),
        says="trainer has /nowhere as home, which does not exist",
        fix="--create-home",
        domain="image",
    ),
    Twin(
        "account_home_exists",
        of(HOMELESS._replace(home_variable="/run/rig/home", variable_writable=True)),
        of(NOBODY),
        says="/nowhere",
        fix="--create-home",
        domain="image",
    ),
    Twin(
        "home_can_be_written",
        of(LOCKED),
        of(NOBODY),
        says="HOME is /, which this user cannot write",
        fix="-e HOME=",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "home_can_be_written",
        of(NAMED._replace(home_writable=False, makeshift=False)),
        of(HOMELESS),  # account_home_exists says it
        says="HOME is /run/rig/home",
        fix="-e HOME=",
        domain="user",
        outcome="warn",
    ),
)

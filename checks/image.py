"""The image's files and the account that runs: nothing left behind, nothing open to everybody, a way to start."""

from checks import check, known, say
from checks.needs import CONTAINER, IMAGE
from checks.versions import image_of, looked_at
from rig.finding import Finding
from rig.lean import Any, Iterator, Mapping
from rig.snapshot import Snapshot

# What Debian's packages of the base image bring with setuid or setgid, and those that a usual system has besides.
SETUID = (
    *("chage", "chfn", "chsh", "expiry", "gpasswd", "mount", "umount", "newgrp", "passwd", "su", "unix_chkpwd"),
    *("ssh-agent", "ssh-keysign", "netkit-rcp", "netkit-rlogin", "netkit-rsh", "sudo", "fusermount", "fusermount3"),
    *("crontab", "wall", "write", "dbus-daemon-launch-helper", "polkit-agent-helper-1", "pkexec", "utempter"),
    *("newuidmap", "newgidmap", "pam_extrausers_chkpwd", "mail-lock", "mail-unlock", "mail-touchlock", "dotlockfile"),
)
# Left by uv while it installs: an empty file that nothing reads.
EMPTY_LOCK = "/opt/venv/.lock"
# Programs that reap orphans and pass signals on.
INITS = (
    "tini",
    "docker-init",
    "dumb-init",
    "catatonit",
    "systemd",
    "init",
    "s6-svscan",
    "runit",
    "supervisord",
    "pause",
)
ROOMS = "/opt/rig"
# Programs by name: what does not work without them.
TOOLS: Mapping[str, str] = {
    "ssh": "no job of several nodes can be started from here",
    "sshd": "no other node can start ranks here over ssh",
    "pdsh": "DeepSpeed's own launcher starts no other node",
    "pkill": "DeepSpeed's launcher leaves ranks of other nodes alive",
    "ibv_devinfo": "nothing shows what the RDMA library sees",
    "ib_write_bw": "RDMA cannot be measured without NCCL",
}
LISTED = 50  # rig.detect.image_files keeps no more of a kind


@check(
    at="quick", needs=(IMAGE, CONTAINER), domain="image", fix="pass it at run time or as a build secret, and change it"
)
def image_holds_no_secrets(now: Snapshot) -> Iterator[Finding]:
    """No private key, ssh host key, password or token lies in a layer.

    Whoever can pull the image has it; a later layer that deletes it changes nothing. A host key made in a layer is the
    same in every container of the world, and `authorized_keys` lets its owner into all of them.

    Symptom: none, until somebody else uses it.
    Source: files older than the container, by name and text: ssh-keygen(1), sshd(8), netrc(5), docker's config.json.
    """
    known(looked_at(now, "secrets"), "files that may hold secrets")
    for path in image_of(now).secrets:
        yield say(f"a secret is in the image: {path}", path)


@check(
    at="quick", needs=(IMAGE, CONTAINER), severity="warn", domain="image", fix="delete it in the layer that makes it"
)
def image_holds_no_caches(now: Snapshot) -> Iterator[Finding]:
    """What installing left behind is not in the image.

    Wheels, package lists and temporary files of a build are pulled by every machine that rents the image, and read by
    none. What was cached since the container started is its user's affair.

    Symptom: minutes of pulling on a rented machine.
    Source: files older than the container below pip's, uv's, apt's and conda's caches, /tmp and /var/tmp.
    """
    known(looked_at(now, "caches"), "the caches in the image")
    for told in image_of(now).caches:
        yield say(f"a cache is in the image: {told}", told.partition(" (")[0])


@check(at="quick", needs=(IMAGE,), domain="image", fix="chmod -R go-w /opt/rig /opt/venv /usr /etc")
def files_are_not_for_everybody_to_write(now: Snapshot) -> Iterator[Finding]:
    """No program or setting of the image can be changed by everybody.

    rig runs before every program, as root where the container does. A file of its folder that any user can write is a
    way to become root, and so is one below /usr, /etc or the user's environment.

    Symptom: none; a scanner of the marketplace refuses the image.
    Source: modes below /usr, /opt and /etc (find(1) -perm -0002); folders with the sticky bit are innocent.
    """
    known(looked_at(now, "modes"), "the modes of the image's files")
    image = image_of(now)
    loose = [path for path in image.loose if path != EMPTY_LOCK]
    tops = sorted({"/".join(path.split("/")[:3]) for path in loose})
    for top in tops:
        paths = [path for path in loose if path == top or path.startswith(f"{top}/")]
        least = "at least " if len(image.loose) >= LISTED else ""
        more = f" and {least}{len(paths) - 1} more" if len(paths) > 1 else ""
        yield say(f"everybody can write {paths[0]}{more}", top, None, len(paths), f"chmod -R go-w {top}")
    if image.rig_files_writable and ROOMS not in tops:
        yield say(f"{ROOMS} can be changed by the user {image.account.uid}, who is not root", ROOMS)


@check(
    at="quick", needs=(IMAGE, CONTAINER), severity="warn", domain="image", fix="chmod u-s,g-s, or remove the program"
)
def setuid_programs_are_known(now: Snapshot) -> Iterator[Finding]:
    """Only programs of the system become another user when run.

    Each such program is a way to root for whoever runs as a user in the container. Those of Debian's packages are
    known; one that came besides has to have a reason.

    Symptom: none; a scanner of the marketplace refuses the image.
    Source: modes below /usr, /opt and /etc (find(1) -perm /6000); requirements/base.apt.
    """
    known(looked_at(now, "modes"), "the modes of the image's files")
    for path in image_of(now).setuid:
        if path.rpartition("/")[2] not in SETUID:
            yield say(f"{path} runs with the rights of its owner", path)


@check(at="quick", needs=(IMAGE, CONTAINER), domain="image", fix="apt-get install tini")
def tini_is_in_the_image(now: Snapshot) -> Iterator[Finding]:
    """The init that the image starts with is there.

    The entrypoint is `tini -g -- rig boot --`. Without tini no container starts at all; with another entrypoint nobody
    passes SIGTERM on to the ranks, and killed ones stay as zombies.

    Symptom: `exec: "tini": executable file not found in $PATH` from `docker run`.
    Source: usual folders of tini; Dockerfile.base.
    """
    if image_of(now).tini is None:
        yield say("tini, the image's process 1, is not there: containers do not start", "tini", "/usr/bin/tini")


@check(
    at="quick",
    needs=(IMAGE, CONTAINER),
    severity="warn",
    domain="user",
    fix="docker run --init, or keep the image's entrypoint",
)
def process_1_reaps_and_passes_signals(now: Snapshot) -> Iterator[Finding]:
    """Process 1 of the container is an init.

    The kernel gives orphans to process 1 and does not end it by a signal that it has no handler for: a shell or a
    Python there lets zombies pile up and ignores `docker stop` until it is killed, checkpoint or not.

    Symptom: `docker stop` takes ten seconds and loses the last checkpoint; defunct processes hold GPU memory.
    Source: /proc/1/comm; pid_namespaces(7).
    """
    image = image_of(now)
    if image.tini is None:
        return  # tini_is_in_the_image says it
    name = known(image.init, "process 1")
    if name not in INITS:
        yield say(f"process 1 is {name}, which neither reaps nor passes signals on", "process 1", "tini", name)


@check(at="quick", needs=(IMAGE, CONTAINER), domain="image", fix="chmod 0755 /usr/local/bin/rig, or rebuild the image")
def rig_can_be_started(now: Snapshot) -> Iterator[Finding]:
    """The entrypoint's program can be executed by the user that runs.

    A COPY from a file system without modes, or a restrictive umask at build time, leaves it readable only.

    Symptom: `exec /usr/local/bin/rig: permission denied` from `docker run`.
    Source: access(2) of /usr/local/bin/rig.
    """
    if not known(image_of(now).entrypoint, "whether /usr/local/bin/rig can be run"):
        yield say("/usr/local/bin/rig cannot be run by this user", "/usr/local/bin/rig")


@check(
    at="quick",
    needs=(IMAGE, CONTAINER),
    severity="warn",
    domain="image",
    fix="apt-get install openssh-client openssh-server pdsh procps ibverbs-utils perftest",
)
def tools_are_in_the_image(now: Snapshot) -> Iterator[Finding]:
    """The programs that starting on several nodes and measuring call are there.

    A rented machine is often without a network of its own or behind a proxy: what is not in the image cannot be had.

    Symptom: `pdsh: not found` from DeepSpeed's launcher; a check that is skipped for want of its program.
    Source: PATH; requirements/base.apt; microsoft/superbenchmark#766.
    """
    there = known(image_of(now).tools, "the programs on PATH")
    for name, effect in TOOLS.items():
        if name not in there:
            yield say(f"{name} is not on PATH: {effect}", name, name)


@check(
    at="quick",
    needs=(IMAGE,),
    severity="warn",
    domain="user",
    fix="docker run --user UID:0, so that the boot can add one",
)
def account_has_a_name(now: Snapshot) -> Iterator[Finding]:
    """The user that runs has an entry in /etc/passwd, or the boot can add one.

    ssh does not start for a user without one, and so no job of several nodes does. The boot adds it where group 0 may
    write /etc/passwd; USER it sets in any case.

    Symptom: `No user exists for uid 12345` from ssh; `KeyError: 'getpwuid(): uid not found: 12345'`.
    Source: /etc/passwd, access(2); ssh(1), Python's pwd.
    """
    account = image_of(now).account
    known(account.uid, "the user that runs")
    if account.name is None and not known(account.passwd_writable, "whether a passwd entry can be added"):
        yield say(f"the user {account.uid} has no name, and none can be added", "/etc/passwd", "an entry", None)


def _people(account: Any) -> bool:
    """Root, and accounts that an image makes for people; `nobody` and services have no home by design."""
    return account.uid is not None and (account.uid == 0 or 1000 <= account.uid < 60000)


@check(
    at="quick",
    needs=(IMAGE,),
    domain="image",
    fix="useradd --create-home, or mkdir the folder and chown it in the Dockerfile",
)
def account_home_exists(now: Snapshot) -> Iterator[Finding]:
    """The home that /etc/passwd names for the user that runs is there.

    ssh, sshd and NCCL (~/.nccl.conf) ask passwd, whatever HOME says. A user that the image does not know has no entry
    and is innocent, and so are accounts of services.

    Symptom: `Could not create directory '/nowhere/.ssh'`; caches land nowhere and are made anew in every run.
    Source: /etc/passwd, stat(2); NVIDIA/nccl src/misc/param.cc.
    """
    account = image_of(now).account
    known(account.uid, "the user that runs")
    if account.home is not None and _people(account) and not known(account.home_exists, "whether the home exists"):
        yield say(f"{account.name} has {account.home} as home, which does not exist", account.home)


@check(
    at="quick",
    needs=(IMAGE,),
    severity="warn",
    domain="user",
    fix="set HOME to a folder that this user can write: -e HOME=/workspace",
)
def home_can_be_written(now: Snapshot) -> Iterator[Finding]:
    """Programs can write where they take home to be.

    Hugging Face, triton and torch's compiled ops keep their caches there. Where HOME cannot be written the boot makes
    one up below /run/rig, /tmp or /dev/shm: a user without a home is innocent where one of these can be written.

    Symptom: `PermissionError: [Errno 13] Permission denied: '/.cache'` at the first download or compiled op.
    Source: HOME, /etc/passwd, access(2).
    """
    account = image_of(now).account
    if account.home_variable is not None:
        home, writable = account.home_variable, account.variable_writable
    else:
        home, writable = account.home, account.home_writable
    if home is not None and home == account.home and account.home_exists is False and _people(account):
        return  # account_home_exists says it
    if image_of(now).entrypoint and account.makeshift:
        return
    if not known(writable, "whether the home can be written"):
        yield say(f"HOME is {home}, which this user cannot write", "HOME", None, home)

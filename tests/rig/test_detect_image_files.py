"""What find(1) says of an image's files, and what is made of it: on paper, and once on a real folder."""

import os
import subprocess
from pathlib import Path

import pytest

from rig.captured import Captured, Tree, parse
from rig.detect import image_files as files
from rig.image import Account, Image
from rig.root import Collected

TREE = """rig-capture 1
/proc/self
  status |
    Name:	rig
    Uid:	4242	4242	4242	4242
/proc/1
  comm = tini
/etc
  os-release |
    PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
    VERSION_CODENAME=bookworm
  passwd |
    root:x:0:0:root:/root:/bin/bash
    trainer:x:4242:0::/nowhere:/bin/sh
/usr/bin
  + tini
/root/.ssh
  id_ed25519 |
    -----BEGIN OPENSSH PRIVATE KEY-----
  authorized_keys = ssh-ed25519 AAAA somebody
/root/.docker
  config.json = {"auths": {"registry": {"auth": "AAAA"}}}
/opt/app
  config.json = {"auth": "none of docker's"}
  server.key = -----BEGIN PRIVATE KEY-----
  public.pem = -----BEGIN CERTIFICATE-----
/opt/venv/lib/python3.11/site-packages/tests
  server.key = -----BEGIN PRIVATE KEY-----
"""
SECRETS = """200.5 9 /etc/hosts
100.0 400 /root/.ssh/id_ed25519
100.0 40 /root/.ssh/authorized_keys
100.0 40 /root/.docker/config.json
100.0 40 /opt/app/config.json
100.0 40 /opt/app/server.key
100.0 40 /opt/app/public.pem
100.0 40 /opt/venv/lib/python3.11/site-packages/tests/server.key
100.0 0 /root/.netrc
300.0 400 /etc/ssh/ssh_host_ed25519_key
"""
CACHES = """200.5 9 /etc/hosts
100.0 8000000 /root/.cache/pip/http/wheel
100.0 600000 /var/cache/apt/pkgcache.bin
300.0 9000000 /root/.cache/uv/wheels/late
"""
MODES = """644 f /etc/hosts
4755 f /usr/bin/su
2755 f /usr/bin/ssh-agent
2755 d /usr/local/share/fonts
777 d /opt/rig
666 f /opt/rig/boot.pack
6777 f /opt/become
"""
RIGHTS = (
    "x /etc/hosts\nw /etc/hosts\nx /opt/rig\ne /opt/rig\nx /usr/local/bin/rig\ne /usr/local/bin/rig\nx /tmp\nw /tmp\n"
)
ENVIRON = {"HOME": "/nowhere"}


def tree(modes: str = MODES, state: str = "failed") -> Tree:
    """A container's tree in which find has told these things; as a user it ends with an error (`failed`)."""
    made = parse(TREE)
    asked = files._rights(["/nowhere", "/opt/rig", "/usr/local/bin/rig", "/etc/passwd", "/run/rig", "/tmp", "/dev/shm"])
    for argv, told in ((files.MODES, modes), (files.SECRETS, SECRETS), (files.CACHES, CACHES), (asked, RIGHTS)):
        made.programs[argv] = Collected(state, told)
    return made


def look(made: Tree) -> Image:
    root = Captured(made)
    return files.read_files(root, files.start(root, ENVIRON))


def test_an_image_with_all_that_can_be_wrong() -> None:
    image = look(tree())
    assert image.read == ("modes", "secrets", "caches", "rights")
    assert image.secrets == (
        "/opt/app/server.key",
        "/root/.docker/config.json",
        "/root/.ssh/authorized_keys",
        "/root/.ssh/id_ed25519",
    )
    assert image.caches == ("/root/.cache/pip (8.0 MB)",)
    assert image.loose == ("/opt/become", "/opt/rig", "/opt/rig/boot.pack")
    assert image.setuid == ("/opt/become", "/usr/bin/ssh-agent", "/usr/bin/su")
    assert (image.init, image.tini, image.entrypoint, image.os_release) == ("tini", "/usr/bin/tini", True, "bookworm")
    assert image.account == Account(4242, "trainer", "/nowhere", False, False, "/nowhere", False, False, True)
    assert image.rig_files_writable is False


@pytest.mark.parametrize("state", ["hung", "unasked"])
def test_what_did_not_end_is_not_known(state: str) -> None:
    image = look(tree(state=state))
    assert image.read == ()
    assert (image.secrets, image.caches, image.loose, image.setuid) == ((), (), (), ())
    assert (image.entrypoint, image.rig_files_writable) == (None, None)
    assert image.account == Account(4242, "trainer", "/nowhere", home_variable="/nowhere")


def test_an_empty_machine_is_all_unknown() -> None:
    image = look(parse("rig-capture 1\n"))
    assert (image.read, image.init, image.tini, image.os_release) == ((), None, None, None)
    assert image.account == Account(home_variable="/nowhere")


@pytest.mark.parametrize("text", ["", "nonsense\n", "4755 f /usr/bin/su\n", "\x00\n9999 f /usr/bin/x\n"])
def test_modes_without_the_line_that_shows_that_find_could_look(text: str) -> None:
    assert files.parse_modes(text) is None


def test_lines_that_are_none_are_passed_over() -> None:
    assert files.parse_modes("644 f /etc/hosts\n98 f /usr/bin/x\nf\n4755 f\n") == ((), ())
    assert files.parse_found("9.5 1 /etc/hosts\n1 x /a\nb 1 /c\n1.0 5 /d\n-1 5 /e\n") == [files.Found(1.0, 5, "/d")]


def test_a_long_list_is_cut() -> None:
    modes = "644 f /etc/hosts\n" + "".join(f"666 f /usr/lib/{number:04}\n" for number in range(3000))
    told = files.parse_modes(modes)
    assert told is not None and len(told[0]) == files.AT_MOST


def test_a_container_that_was_started_again_still_knows_when_it_was_made() -> None:
    """/etc/hosts is written at every start, /.dockerenv once."""
    text = "500.0 9 /etc/hosts\n200.0 0 /.dockerenv\n300.0 400 /etc/ssh/ssh_host_rsa_key\n100.0 400 /root/.ssh/id_rsa\n"
    assert [one.path for one in files.parse_found(text) or []] == ["/root/.ssh/id_rsa"]


@pytest.mark.parametrize(
    ("path", "text", "secret"),
    [
        ("/home/a/.ssh/id_rsa", "-----BEGIN RSA PRIVATE KEY-----", True),
        ("/home/a/.ssh/id_rsa", None, True),  # not ours to read, and named so
        ("/opt/tool/id_rsa", "def id_rsa(): ...", False),
        ("/etc/ssl/private/a.key", None, False),
        ("/root/.npmrc", "registry=x", False),
        ("/root/.npmrc", "//x/:_authToken=abc", True),
        ("/root/.aws/credentials", "aws_secret_access_key = x", True),
        ("/opt/x/credentials", "aws_secret_access_key = x", False),
        ("/root/.cache/huggingface/token", "hf_abc", True),
        ("/etc/ssh/authorized_keys", "# none yet", False),
        ("/usr/share/doc/x/a.pem", "-----BEGIN PRIVATE KEY-----", False),
    ],
)
def test_secrets_are_known_by_name_and_text(path: str, text: str | None, secret: bool) -> None:
    assert files.is_secret(path, text) is secret


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('ID="alpine"\nVERSION_ID=3.20\n', "alpine 3.20"),
        ("ID=arch\n", "arch"),
        ("VERSION_CODENAME='jammy'\n", "jammy"),
        ("", None),
        (None, None),
    ],
)
def test_the_systems_release(text: str | None, told: str | None) -> None:
    assert files.parse_codename(text) == told


def test_the_effective_user_counts() -> None:
    assert files.parse_uid("Name:\tx\nUid:\t1000\t0\t0\t0\n") == 0
    assert files.parse_uid("Uid:\n") is None
    assert files.parse_uid(None) is None


def test_find_understands_what_it_is_asked(tmp_path: Path) -> None:
    """The commands themselves, on a folder of ours in place of the system's."""
    for name, mode in (("open", 0o666), ("become", 0o4755), ("plain", 0o644)):
        (tmp_path / name).write_text("x")
        os.chmod(tmp_path / name, mode)
    sticky, born = tmp_path / "sticky", tmp_path / "hosts"
    sticky.mkdir()
    sticky.chmod(0o1777)
    born.write_text("x")

    def told(argv: tuple[str, ...], *folders: str) -> str:
        words = [str(born) if word == files.BORN else word for word in argv]
        first = next(at for at, word in enumerate(words) if word.startswith("-"))
        asked = [words[0], *(folders or words[1:first]), *words[first:]]
        return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=20).stdout

    modes = files.parse_modes(told(files.MODES, str(tmp_path)).replace(str(born), files.BORN))
    assert modes == ((f"{tmp_path}/open",), (f"{tmp_path}/become",))
    rights = told(files._rights([str(tmp_path), str(tmp_path / "become"), str(tmp_path / "none")])).splitlines()
    assert {f"x {tmp_path}", f"w {tmp_path}", f"e {tmp_path}/become"} <= set(rights)
    assert not [one for one in rights if one.endswith("/none")]
    (tmp_path / "id_rsa").write_text("x")
    secrets = told(files.SECRETS, str(tmp_path))
    assert f"1 {tmp_path}/id_rsa" in secrets and "become" not in secrets

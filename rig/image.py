"""What is in an image, as its own files tell: facts for checks that judge the image without starting anything of it."""

from rig.lean import Mapping, NamedTuple


class Library(NamedTuple):
    """One file of a library that must exist once. `name` is its stem (libnccl); links are not listed."""

    name: str
    path: str
    version: str | None = None  # from the file name, or for NCCL from its text


class Account(NamedTuple):
    """The user that runs. Source: /etc/passwd, stat(2)."""

    uid: int | None = None
    name: str | None = None  # None: no passwd entry
    home: str | None = None
    home_exists: bool | None = None
    home_writable: bool | None = None
    home_variable: str | None = None  # HOME, as the user's environment has it
    variable_writable: bool | None = None  # that folder exists and can be written
    passwd_writable: bool | None = None  # the boot can add an entry for a user that has none
    makeshift: bool | None = None  # the boot finds a folder in which to make a home up


class Image(NamedTuple):
    """An image's content as its own files tell."""

    packages: Mapping[str, str] = {}  # noqa: RUF012  names of /opt/venv (lower case, dashes) -> version
    libraries: tuple[Library, ...] = ()
    ld_path: tuple[str, ...] = ()  # entries of LD_LIBRARY_PATH as they stand; "" is the current folder
    ld_preload: tuple[str, ...] = ()
    providers: tuple[str, ...] | None = None  # /etc/libibverbs.d/*.driver
    secrets: tuple[str, ...] = ()  # private keys, host keys, tokens in files
    caches: tuple[str, ...] = ()  # package caches and leftovers with more than 1 MB
    loose: tuple[str, ...] = ()  # paths that everybody may write, below /opt, /usr, /etc
    setuid: tuple[str, ...] = ()
    init: str | None = None  # name of process 1; None: not visible
    tini: str | None = None  # path of tini
    entrypoint: bool | None = None  # /usr/local/bin/rig can be executed
    account: Account = Account()
    nvcc: str | None = None  # version of the CUDA compiler
    compilers: tuple[str, ...] = ()  # of g++, ninja: those that are there
    python: str | None = None  # version of /opt/venv's interpreter
    os_release: str | None = None
    stub_libraries: tuple[str, ...] = ()  # libcuda stubs that the loader would find
    compat_libraries: tuple[str, ...] = ()  # libcuda of a compat folder that the loader would find
    rig_files_writable: bool | None = None  # /opt/rig can be changed by this user, who is not root
    read: tuple[str, ...] | None = None  # what could be looked at: modes, secrets, caches, rights, libraries, packages
    python_headers: bool | None = None  # Python.h of that interpreter
    verbs_files: tuple[str, ...] | None = None  # provider libraries beside libibverbs: mlx5, efa, ...
    cuda_home_set: str | None = None  # CUDA_HOME or CUDA_PATH, as the environment has it
    tools: tuple[str, ...] | None = None  # programs on PATH, of those that starting and measuring call

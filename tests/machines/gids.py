"""GID entries as sysfs shows them."""


def gid4(address: str) -> str:
    """The GID that carries an IPv4 address."""
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def gid_local(number: int) -> str:
    """A link-local GID."""
    return f"fe80:0000:0000:0000:0200:00ff:fe00:{number:04x}"


def roce(address: str, netdev: str, number: int, first: int = 0) -> tuple[str, ...]:
    """The usual four entries of a RoCE port: link-local and IPv4, each as v1 and v2."""
    gids = (gid_local(number), gid_local(number), gid4(address), gid4(address))
    kinds = ("IB/RoCE v1", "RoCE v2") * 2
    return tuple(f"{first + at},{gid},{kind},{netdev}" for at, (gid, kind) in enumerate(zip(gids, kinds, strict=True)))

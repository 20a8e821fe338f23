"""Reading kernel text with distrust: every function answers None for what is not exactly what it should be."""

WIDTHS = (1, 2, 4, 8, 12, 16, 32)  # lanes that a PCIe link can have


def line(text: str | None, longest: int = 256) -> str | None:
    """The first line without blanks around it; None when empty, unprintable (garbage) or longer than `longest`."""
    if not text:
        return None
    end = text.find("\n")
    first = (text if end < 0 else text[:end]).strip(" \t\r\0")
    if not first or len(first) > longest or not first.isprintable() or "\ufffd" in first:
        return None
    return first


def whole(text: str | None, low: int = 0, high: int = 1 << 62) -> int | None:
    """A decimal number with low <= number <= high; None otherwise. Kernels print -1 for many an unknown."""
    if not text or len(text) > 40 or not text.isascii() or "_" in text:
        return None  # int() takes 1_0 and digits of every script
    try:
        number = int(text)
    except ValueError:
        return None
    return number if low <= number <= high else None


def hexadecimal(text: str | None, digits: int) -> str | None:
    """`0x10de` or `10DE` as exactly `digits` lower-case hex digits (zeros added in front); None otherwise."""
    if not text or len(text) > 40 or not text.isascii() or "_" in text:
        return None
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return f"{number:0{digits}x}" if 0 <= number < 1 << 4 * digits else None


def parse_uevent(text: str | None, key: str) -> str | None:
    """The value of a line `KEY=value`. PCI_CLASS=30200, PCI_ID=10DE:2330 and PCI_SUBSYS_ID=10DE:16C1 are four files in
    one. Source: pci_uevent() in drivers/pci/pci-driver.c."""
    at = ("\n" + text).find(f"\n{key}=") if text else -1
    return None if text is None or at < 0 else text[at + len(key) + 1 :].partition("\n")[0]


def parse_status(text: str | None) -> dict[str, str]:
    """`Key:\tvalue` lines of /proc/PID/status. Source: proc(5)."""
    found = {}
    for entry in (text or "").splitlines():
        key, colon, value = entry.partition(":")
        if colon:
            found[key] = value.strip()
    return found


def parse_ids(text: str | None) -> tuple[str | None, str | None]:
    """`10DE:2330` as two texts of four hex digits."""
    vendor, _, device = (text or "").partition(":")
    return hexadecimal(vendor, 4), hexadecimal(device, 4)


def parse_speed(text: str | None) -> float | None:
    """GT/s per lane of `16.0 GT/s PCIe` (older kernels: `8 GT/s`); None for `Unknown` and anything else."""
    words = (line(text, 40) or "").split()
    if len(words) < 2 or words[1] != "GT/s" or words[0].strip("0123456789.") or words[0].count(".") > 1:
        return None
    try:
        speed = float(words[0])
    except ValueError:
        return None
    return speed if 2.0 <= speed <= 256.0 else None


def parse_width(text: str | None) -> int | None:
    """Lanes; 0 (no link) and 255 (unknown) are None."""
    lanes = whole(text, 1, 32)
    return lanes if lanes in WIDTHS else None


def is_bus_id(text: str) -> bool:
    """Whether text has the form DDDD:BB:DD.F in lower case (Intel VMD and Hyper-V have longer domains)."""
    if len(text) < 12 or text[-8] != ":" or text[-5] != ":" or text[-2] != ".":
        return False
    return not (text[:-8] + text[-7:-5] + text[-4:-2] + text[-1]).strip("0123456789abcdef")


def bus_id(text: str | None) -> str | None:
    """A PCI address as sysfs writes it; NVML writes `00000000:1B:00.0` for `0000:1b:00.0`. None when it is none."""
    if not text or len(text) > 40:
        return None
    low = text.strip().lower()
    if len(low) == 7:
        low = "0000:" + low
    if not is_bus_id(low):
        return None
    domain, tail = low[:-8].lstrip("0"), low[-8:]
    return domain.rjust(4, "0") + tail


def count_of_list(text: str | None) -> int | None:
    """How many numbers a kernel list such as `0-47,96-143` names; None when it is none. Source: Documentation/core-api/
    kernel-api, bitmap lists."""
    first = line(text, 4096)
    if first is None:
        return None
    total = 0
    for part in first.split(","):
        low, dash, high = part.partition("-")
        first_number, last_number = whole(low, 0, 1 << 20), whole(high if dash else low, 0, 1 << 20)
        if first_number is None or last_number is None or last_number < first_number:
            return None
        total += last_number - first_number + 1
    return total

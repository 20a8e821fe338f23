"""Whether each RDMA port moves data, and how fast: ib_write_bw with itself, one port after another.

Server and client are on the same port, so the data go to the adapter and back: that tries registration of memory,
queue pairs and the adapter's PCIe link, not the cable or the switch. One at a time: adapters may share a PCIe switch.
With --gdr the client's data lie in the nearest GPU's memory, where perftest was built with CUDA. EFA has no such queue
pairs and is left out. Not seen on hardware yet.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # rig's own folder
from telling import run, tell

from rig.measure.perftest import complaint, read_bandwidth

PROGRAM = "/usr/bin/ib_write_bw"
DEVICES, GPUS = "/sys/class/infiniband", "/proc/driver/nvidia/gpus"
WORDS = ("-F", "--report_gbits", "-s", "1048576", "-n", "5000")
TIMEOUT_S, GRACE_S, TRIES = 15.0, 0.5, 15


def text(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def active_ports() -> list[dict[str, Any]]:
    """Ports that are up, with the rate that sysfs tells (`400 Gb/sec (4X NDR)`). Source: sysfs-class-infiniband."""
    found = []
    for hca in listed(DEVICES):
        if os.path.basename(os.path.realpath(f"{DEVICES}/{hca}/device/driver")) == "efa":
            continue
        for port in listed(f"{DEVICES}/{hca}/ports"):
            place = f"{DEVICES}/{hca}/ports/{port}"
            if "ACTIVE" in (text(f"{place}/state") or "").split():
                rate = (text(f"{place}/rate") or "").split()[:1]
                found.append({"hca": hca, "port": int(port), "rate_gbps": float(rate[0]) if rate else None})
    return found


def gid_words(hca: str, port: int) -> list[str]:
    """RoCE needs a GID by its index: the first of RoCE v2. InfiniBand needs none."""
    place = f"{DEVICES}/{hca}/ports/{port}"
    if text(f"{place}/link_layer") != "Ethernet":
        return []
    for index in sorted(int(name) for name in listed(f"{place}/gid_attrs/types")):
        if text(f"{place}/gid_attrs/types/{index}") == "RoCE v2":
            return ["-x", str(index)]
    return []


def nearest_gpu(hca: str) -> int:
    """Index, in the order of bus ids, of the GPU that shares most of the PCI path with the adapter."""
    mine = os.path.realpath(f"{DEVICES}/{hca}/device").split("/")

    def shared(bus_id: str) -> int:
        other = os.path.realpath(f"/sys/bus/pci/devices/{bus_id}").split("/")
        return next((i for i, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), len(other))

    gpus = listed(GPUS)
    return max(range(len(gpus)), key=lambda index: shared(gpus[index]))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def last_words(server: "subprocess.Popen[str]") -> str:
    """What a server said. It ends when its client does; one that failed may still have words to say."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_S)
    server.kill()
    return str(server.communicate()[0])


def measure(hca: str, port: int, gpu: int | None) -> dict[str, Any]:
    """`gbps`, or `error`: why there is none."""
    words = [PROGRAM, "-d", hca, "-i", str(port), "-p", str(free_port()), *WORDS, *gid_words(hca, port)]
    client = [*words, *([] if gpu is None else [f"--use_cuda={gpu}"]), "127.0.0.1"]
    environ = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environ}
    server, said = subprocess.Popen(words, **pipes), ""
    try:
        for _ in range(TRIES):  # until the server listens
            said = subprocess.run(client, timeout=TIMEOUT_S, check=False, **pipes).stdout
            if "connect to" not in said or server.poll() is not None:
                break
            time.sleep(0.2)
    except subprocess.TimeoutExpired:
        return {"gbps": None, "error": f"did not end within {TIMEOUT_S:g} s"}
    finally:
        servers = last_words(server)
    row = read_bandwidth(said)
    if row is not None:
        return {"gbps": round(row.average_gbps, 1), "error": None}
    return {"gbps": None, "error": complaint(servers) or complaint(said) or "it printed no result"}


def absent(gdr: bool) -> str | None:
    """Why this cannot be measured with what is here."""
    if not os.access(PROGRAM, os.X_OK):
        return f"{PROGRAM} is not there"
    if not gdr:
        return None
    helped = subprocess.run([PROGRAM, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return None if b"--use_cuda" in helped.stdout else "perftest was built without CUDA"


def main() -> None:
    gdr = "--gdr" in sys.argv
    tell(ports=[])
    missing = absent(gdr) or (None if not gdr or listed(GPUS) else "no GPU here")
    if missing is not None:
        tell(absent=missing)
        return
    for port in active_ports():
        hca, number = port["hca"], port["port"]
        tell(asking=f"{hca}:{number}")
        tell(ports=[{**port, **measure(hca, number, nearest_gpu(hca) if gdr else None)}])
    tell(asking=None)


if __name__ == "__main__":
    run(main)

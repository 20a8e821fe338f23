"""What NCCL's log says of the way that data takes. Source: NCCL's src/transport/*.cc, src/init.cc, 2.18 to 2.21."""

import re
from typing import Any

CHANNEL = re.compile(r" via (P2P|SHM|NET|COLL)(/[\w/-]+)?")
NET = re.compile(r"NET/(\w+)(?:/\d+)?((?:/\w+)*)")
USING = re.compile(r"NET/IB : Using (.*?); OOB")
VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
LINES = 20  # of warnings kept


def read_log(text: str) -> dict[str, Any]:
    """`transports`: P2P, SHM, NET as used between ranks; `nets`: IB, Socket or a plugin's name; `gdr`: all network
    channels use GPUDirect RDMA (None without such); `hcas`: the line of devices; `nvls`: NVLink SHARP was set up."""
    transports, nets, direct = set(), set(), []
    for line in text.splitlines():
        channel = CHANNEL.search(line)
        if channel:
            transports.add(channel[1])
        net = NET.search(line) if channel and channel[1] == "NET" else None
        if net:
            nets.add(net[1])
            direct.append("GDRDMA" in net[2].split("/"))
    devices, version = USING.search(text), VERSION.search(text)
    warnings = [line.strip()[:300] for line in text.splitlines() if "NCCL WARN" in line]
    return {
        "transports": sorted(transports),
        "nets": sorted(nets),
        "gdr": all(direct) if direct else None,
        "hcas": devices[1] if devices else None,
        "nvls": "NVLS comm 0x" in text,
        "nccl": version[1] if version else None,
        "log": list(dict.fromkeys(warnings))[:LINES],
    }

"""`rig platform`: check a platform file (/etc/rdma/network_topology.json), or print a valid one."""

import os
import sys

from rig.platform import PATH

USAGE_TEXT = """usage: rig platform validate [FILE]
       rig platform example

  validate  list every problem with the path of its key; 0 where the file can be used, 1 where it would be ignored
            (FILE defaults to /etc/rdma/network_topology.json)
  example   print a valid file; docs/platform-file.md explains the keys"""
USAGE = 64

EXAMPLE = """{
  "schema_version": 1,
  "platform": {"provider": "example", "instance_type": "gpu-8", "generated_at": "2024-05-01T12:00:00Z"},
  "node": {"hostname_match": "gpu-*", "rack": "r7"},
  "gpus": [{"bus_id": "0000:1b:00.0", "index": 0, "numa": 0}],
  "nics": [
    {
      "name": "mlx5_0", "bus_id": "0000:1a:00.0", "port": 1, "role": "compute", "rail": 0,
      "link_layer": "ethernet", "speed_gbps": 400, "netdev": "rdma0", "subnet": "198.51.100.0/24",
      "gpu_affinity": ["0000:1b:00.0"]
    },
    {"name": "mlx5_1", "role": "frontend", "netdev": "eth0"}
  ],
  "rails": [{"id": 0, "isolated": true, "leaf": "leaf-1"}],
  "fabric": {
    "type": "rocev2", "switch_path": ["leaf-1", "spine-1"], "oversubscription": 1,
    "traffic_class": 106, "service_level": 0, "mtu": 4096
  },
  "nccl": {"env": {"NCCL_IB_TIMEOUT": "22"}},
  "cluster": {"nodes": [{"name": "gpu-01", "slots": 8, "rack": "r7"}, {"name": "gpu-02", "slots": 8, "rack": "r8"}]}
}
"""


def run(argv: list[str]) -> int:
    """The verb; returns its exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE_TEXT, file=sys.stdout if argv else sys.stderr)
        return 0 if argv else USAGE
    if argv == ["example"]:
        print(EXAMPLE, end="")
        return 0
    if argv[0] == "validate" and len(argv) <= 2:
        return _validate(argv[1] if len(argv) == 2 else PATH)
    print(USAGE_TEXT, file=sys.stderr)
    return USAGE


def _validate(path: str) -> int:
    """Print all problems on standard output; a file for another machine is valid, and said to be one."""
    from rig.platform import examine
    from rig.root import Live

    platform, problems, stranger = examine(Live(), os.path.abspath(path))
    for one in (*problems, *((stranger._replace(fatal=False),) if stranger else ())):
        print(f"{path}: {'error' if one.fatal else 'warning'}: {f'{one.key} {one.text}'.strip()}. {one.fix}")
    if platform is not None:
        print(f"{path}: valid")
    return 1 if platform is None else 0

"""Root -> Machine: a file for each kernel subsystem; only this function joins them."""

from rig.detect import gpu, kernel, libraries, limits, net, numa, nvml, pci, rdma, surroundings
from rig.machine import Machine
from rig.root import Root
from rig.text import parse_status


def detect(root: Root, *, ask_driver: bool = True, links: bool = True) -> Machine:
    """The facts of this node. Never fails: what is missing, unreadable or absurd is None.

    Reads files only, except for one child that asks the NVIDIA driver (`ask_driver`): it runs beside the reading, is
    given nvml.TIMEOUT_S, and is not started where neither PCI nor procfs nor /dev show an NVIDIA device. No rule of the
    plan asks for the speed and width of PCI links: a boot leaves them out (`links`).
    """
    names = root.ls(pci.DEVICES[:-1])
    nodes = gpu.nodes_of(root.ls("/dev"))
    driver = gpu.read_driver(root)
    buses = gpu.named_by_driver(root)
    early = bool(driver[0] or buses or any(name[6:].isdigit() for name in nodes or ()))
    asked = nvml.start(root) if ask_driver and early else None

    hcas = rdma.read_hcas(root)
    netdevs = net.read_netdevs(root)
    also = [*buses, *(hca.bus_id for hca in hcas if hca.bus_id), *(dev.bus_id for dev in netdevs if dev.bus_id)]
    tree = pci.read_tree(root, also, names, links=links)
    on_bus = [device for device in tree if gpu.is_gpu(device)]
    if ask_driver and asked is None and on_bus:
        asked = nvml.start(root)

    numas = {device.bus_id: device.numa for device in tree}
    netdevs = tuple(dev if (at := numas.get(dev.bus_id or "")) is None else dev._replace(numa=at) for dev in netdevs)

    status = parse_status(root.read("/proc/self/status"))
    cpu, virtual = numa.read_cpu(root)
    place = surroundings.read_surroundings(root, status, virtual, nodes)
    if place.uid == 0 and "CAP_SYS_ADMIN" in (place.capabilities or ()):
        tree = pci.with_acs(root, tree)
    cmdline = kernel.parse_cmdline(root.read("/proc/cmdline"))
    gates = kernel.read_kernel(
        root, driver, tuple(dict.fromkeys(hca.driver for hca in hcas if hca.driver and hca.bus_id)), cmdline
    )
    first = next(iter([device.bus_id for device in on_bus] or [hca.bus_id for hca in hcas if hca.bus_id]), None)
    machine = Machine(
        gpu.read_gpus(root, on_bus, nodes),
        hcas,
        netdevs,
        tree,
        numa.read_nodes(root),
        cpu,
        gates._replace(iommu=pci.read_iommu(root, first, cmdline)),
        libraries.read_libraries(root),
        limits.read_limits(root, status.get("Cpus_allowed_list")),
        place._replace(gpus_on_bus=len(on_bus) if names else None),
    )
    return machine if asked is None else _with_driver(machine, nvml.parse(asked.collect()))


def _with_driver(machine: Machine, answer: nvml.Answer) -> Machine:
    """The machine with what the NVIDIA driver said."""
    return machine._replace(
        gpus=nvml.join(machine.gpus, answer),
        kernel=machine.kernel._replace(driver=machine.kernel.driver or answer.driver),
        nvml=answer.state,
        nvml_error=answer.error,
        unresponsive_gpu=answer.asking,
        gpus_denied=answer.denied,
    )

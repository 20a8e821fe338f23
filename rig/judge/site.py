"""Where a config will run: the few facts that the rules ask for, from plain data. Unknown is None."""

from rig.lean import Any, Mapping, NamedTuple
from rig.nodelist import number
from rig.plan.deepspeed import DsPlan, plan_deepspeed
from rig.plan.ds_inputs import NVLINK_EFFICIENCY, NVLINK_LINK_BYTES, DsInputs
from rig.plan.ds_link import ASSUMED_INTRA, Links
from rig.plan.ds_model import Model, ModelError, model_of_config
from rig.plan.ds_rates import sustained_flops, usual_memory_bytes
from rig.plan.ds_versions import PINNED, Version, parse_version

RDMA_FROM_GBPS = 100.0  # a link this fast is taken for RDMA where nobody says how it is used
NVLINKED = ("A100", "A800", "H100", "H800", "H200", "B200", "GB200", "V100")
NVLINK_RING_BYTES = 12 * NVLINK_LINK_BYTES * NVLINK_EFFICIENCY  # the fewest links of those (A100), as a ring uses them


class Site(NamedTuple):
    """`ranks` is the data-parallel world. `resolver` is who replaces "auto" in the user's program: "hf" (the Trainer),
    "accelerate", or None. `hidden_hides`: Hugging Face will not find a hidden size (nested multimodal configs)."""

    nodes: int = 1
    gpus_per_node: int = 1
    ranks: int = 1
    version: Version = PINNED
    resolver: str | None = None
    capability: int | None = None  # 80 is compute capability 8.0
    memory_bytes: float | None = None
    model: Model = Model()
    hidden_hides: bool = False
    link_gbps: float | None = None
    nics: int = 1
    transport: str = "tcp"
    gpu: str | None = None
    tokens: int | None = None
    gas: int = 1
    dist_initialised: bool | None = None
    hf_batch: int | None = None
    hf_gas: int = 1
    cpu: bool = False
    fused_adam: bool | None = None
    allow_hpz: bool = False
    local_host: str | None = None
    local_names: tuple[str, ...] = ()
    launcher: str | None = None
    inputs: DsInputs | None = None  # of a plan that was made already; None: made from what stands above


def site_of(world: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Site:
    """A site from plain names and values (`nodes`, `gpus_per_node`, `sm`, `gpu_mem_gb`, `link_gbps`, `hidden`,
    `model_params`, `hf_trainer`, `deepspeed`, ...); what has the wrong type counts as unknown. `inputs` holds the
    DsInputs of this node's own plan where there is one: then a config is judged by the plan that fills it."""
    known = {**world, **(more or {})}
    nodes, gpus = _whole(known, "nodes") or 1, _whole(known, "gpus_per_node")
    gbps = _real(known, "link_gbps", "nic_gbps")
    gpu = known.get("gpu") if isinstance(known.get("gpu"), str) else None
    memory = _real(known, "gpu_mem_gb", "gpu_memory_gb")
    model, hides = _model(known)
    slots = gpus if gpus else 1
    parallel = _whole(known, "model_parallel", "mp_size") or 1
    return Site(
        nodes=nodes,
        gpus_per_node=slots,
        ranks=max(1, nodes * slots // parallel),
        version=parse_version(known.get("deepspeed")) if isinstance(known.get("deepspeed"), str) else PINNED,
        resolver="hf" if known.get("hf_trainer") is True else "accelerate" if known.get("accelerate") is True else None,
        capability=_whole(known, "sm", "capability"),
        memory_bytes=memory * 1e9 if memory else usual_memory_bytes(gpu),
        model=model,
        hidden_hides=hides,
        link_gbps=gbps,
        nics=_whole(known, "nics") or 1,
        transport=_transport(known, gbps),
        gpu=gpu,
        tokens=_whole(known, "tokens_per_gpu_micro", "tokens"),
        gas=_whole(known, "gas", "gradient_accumulation_steps") or 1,
        dist_initialised=known.get("dist_initialised") if isinstance(known.get("dist_initialised"), bool) else None,
        hf_batch=_whole(known, "hf_per_device_batch", "hf_per_device_train_batch_size"),
        hf_gas=_whole(known, "hf_gas", "hf_gradient_accumulation_steps") or 1,
        cpu=known.get("gpus_per_node") == 0 or known.get("device") == "cpu" or known.get("accelerator") == "cpu",
        fused_adam=known.get("fused_adam") if isinstance(known.get("fused_adam"), bool) else None,
        allow_hpz=known.get("allow_hpz") is True,
        local_host=known.get("local_host") if isinstance(known.get("local_host"), str) else None,
        local_names=tuple(name for name in known.get("local_names", ()) if isinstance(name, str)),
        launcher=known.get("launcher") if isinstance(known.get("launcher"), str) else None,
        inputs=known.get("inputs") if isinstance(known.get("inputs"), DsInputs) else None,
    )


def inputs_at(site: Site, stage: int | None) -> DsInputs:
    """The inputs of the DeepSpeed plan at this site."""
    if site.inputs is not None:
        return site.inputs._replace(stage=stage)
    nvlink = any(name in (site.gpu or "").upper() for name in NVLINKED)
    links = Links(
        site.nodes,
        site.gpus_per_node,
        site.link_gbps,
        site.nics,
        site.transport,
        NVLINK_RING_BYTES if nvlink else ASSUMED_INTRA if site.gpu else None,
        nvlink,
        gloo=site.cpu,
    )
    return DsInputs(
        links,
        site.model,
        int(site.memory_bytes) if site.memory_bytes else None,
        sustained_flops(site.gpu),
        4 if site.cpu else 2,
        site.tokens,
        site.gas,
        stage=stage,
        accelerator="cpu" if site.cpu else "cuda",
        bf16=None if site.capability is None else site.capability >= 80,
        fused_adam=site.fused_adam,
        version=site.version,
    )


def plan_at(site: Site, stage: int | None) -> DsPlan:
    """The plan that this site would get."""
    return plan_deepspeed(inputs_at(site, stage))


def _model(known: Mapping[str, Any]) -> tuple[Model, bool]:
    """The model, and whether Hugging Face will miss its hidden size: named as null, or only in a nested config."""
    config = known.get("model_config")
    if isinstance(config, Mapping):
        try:
            return model_of_config(config), not any(key in config for key in ("hidden_size", "hidden_sizes"))
        except ModelError:
            return Model(), True
    hidden = _whole(known, "hidden", "hidden_size")
    model = Model(
        hidden,
        _whole(known, "model_params", "params"),
        _whole(known, "layers"),
        intermediate=_whole(known, "intermediate"),
        dynamic=known.get("moe") is True,
    )
    return model, any(name in known and known[name] is None for name in ("hidden", "hidden_size"))


def _transport(known: Mapping[str, Any], gbps: float | None) -> str:
    said = known.get("transport")
    if said in ("tcp", "rdma"):
        return str(said)
    return "rdma" if known.get("rdma") is True or (gbps or 0) >= RDMA_FROM_GBPS else "tcp"


def _whole(known: Mapping[str, Any], *names: str) -> int | None:
    value = _real(known, *names)
    return None if value is None else int(value)


def _real(known: Mapping[str, Any], *names: str) -> float | None:
    """The first of these that is a positive number (0 counts for none)."""
    for name in names:
        value = known.get(name)
        value = number(value) if isinstance(value, str) else value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e18:
            return value
    return None

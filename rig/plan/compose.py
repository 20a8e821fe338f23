"""All rules together: Machine + World + Platform + what the user said -> Plan. Pure."""

from rig.finding import Finding
from rig.job import Read, World
from rig.lean import TYPE_CHECKING, Any, Mapping, NamedTuple
from rig.machine import Gpu, Machine
from rig.plan import Plan, Setting
from rig.plan.deepspeed import DsInputs, DsPlan, generated, plan_deepspeed
from rig.plan.ds_inputs import inputs_of
from rig.plan.ds_model import Model
from rig.plan.launch import LaunchPlan, plan_launch
from rig.schedulers import DEEPSPEED_HOSTFILE
from rig.settings import Settings

if TYPE_CHECKING:
    from rig.plan.nccl_facts import NcclPlan
    from rig.platform import Platform
    from rig.scriptargs import ScriptFacts


class Asked(NamedTuple):
    """What the user said: the environment without anything of ours, the lines of their own nccl.conf, the settings,
    what the script's text shows (None: no script, or not looked at), and what is known of the model."""

    environ: Mapping[str, str] = {}  # noqa: RUF012  never changed
    nccl_conf: Mapping[str, str] = {}  # noqa: RUF012
    settings: Settings = Settings()
    script: "ScriptFacts | None" = None
    model: Model = Model()


class Composed(NamedTuple):
    """The plan, and what is needed to judge or fill a config of the user's with other stages than the planned one."""

    plan: Plan
    ds: DsPlan
    ds_inputs: DsInputs
    gpus: tuple[Gpu, ...] = ()  # those that the job uses
    accelerate: bool = False

    def ds_config(self) -> dict[str, Any]:
        """The generated DeepSpeed config, nested."""
        return generated(self.ds)

    def site(self) -> dict[str, Any]:
        """Where a config will run, in the plain names that rig.judge takes. Unknown is left out."""
        links, model = self.ds_inputs.links, self.ds_inputs.model
        sm = [10 * gpu.capability[0] + gpu.capability[1] for gpu in self.gpus if gpu.capability]
        memory = self.ds_inputs.gpu_memory_bytes
        told = {
            "inputs": self.ds_inputs,
            "nodes": links.nodes,
            "gpus_per_node": links.gpus_per_node,
            "device": "cpu" if self.ds_inputs.accelerator == "cpu" else None,
            "gpu": next((gpu.model for gpu in self.gpus), None),
            "sm": min(sm, default=None),
            "gpu_mem_gb": memory / 1e9 if memory else None,
            "link_gbps": links.nic_gbps,
            "nics": links.nics,
            "transport": links.transport,
            "model_params": model.params,
            "layers": model.layers,
            "intermediate": model.intermediate,
            "moe": model.dynamic or None,
            "hf_trainer": self.ds_inputs.hf_trainer or None,
            "accelerate": self.accelerate or None,
        }
        hidden = {"hidden": model.hidden} if model.hidden else {}  # a None would say that Hugging Face finds none
        return {**{name: value for name, value in told.items() if value is not None}, **hidden}

    def ds_settings(self, stage: int) -> dict[str, Setting]:
        """What fits a config of the user's that asks for this ZeRO stage, by dotted name."""
        return plan_deepspeed(self.ds_inputs._replace(stage=stage or None)).named()


def make_plan(machine: Machine, world: World, asked: Asked, platform: "Platform | None" = None) -> Composed:
    """The plan for this node, each line with its source and reason."""
    launch = plan_launch(machine, world, asked.settings, asked.environ)
    nccl = _nccl(machine, launch, asked, platform)
    inputs = _ds_inputs(machine, launch, asked)
    ds = plan_deepspeed(inputs)
    plan = Plan(
        ranks=launch.ranks,
        environment=(*launch.environment, *(nccl.environment if nccl else ())),
        nccl=nccl.conf if nccl else (),
        ds_config=ds.settings,
        hostfile=launch.nodes,
        findings=(*launch.findings, *(nccl.findings if nccl else ()), *ds.advice),
    )
    gpus = machine.gpus if launch.gpus else ()
    return Composed(plan, ds, inputs, gpus, asked.script is not None and asked.script.accelerate)


def _nccl(machine: Machine, launch: LaunchPlan, asked: Asked, platform: "Platform | None") -> "NcclPlan | None":
    """None where the job uses no GPU: then nothing of it touches NCCL, and its rules are not even imported."""
    if not launch.gpus:
        return None
    from rig.plan.nccl import plan_nccl

    nodes = next(len(line.value) for line in launch.ranks if line.name == "slots")
    return plan_nccl(machine, platform=platform, user={**asked.nccl_conf, **asked.environ}, nodes=nodes)


def _ds_inputs(machine: Machine, launch: LaunchPlan, asked: Asked) -> DsInputs:
    told = {line.name: line.value for line in launch.ranks}
    used = machine if launch.gpus else machine._replace(gpus=())
    return inputs_of(
        used,
        nodes=len(told["slots"]),
        gpus_per_node=told["local_ranks"],
        model=asked.model,
        hf_trainer=asked.script is not None and asked.script.hf_trainer,
    )


def judge_users_files(environ: Mapping[str, str], read: Read, plan: Plan) -> tuple[Finding, ...]:
    """The user's hostfile (RIG_HOSTFILE, else DeepSpeed's default one) and .deepspeed_env, where there are any.

    `read` gives the text of a file or None. The rules are imported only for a file that exists.
    """
    named = environ.get("RIG_HOSTFILE", "")
    path = named or DEEPSPEED_HOSTFILE
    text = read(path)
    found: tuple[Finding, ...] = ()
    if text is not None:
        from rig.judge.files import judge_named_hostfile

        ranks = next(line.value for line in plan.ranks if line.name == "local_ranks")
        found = judge_named_hostfile(text, path, ranks, bool(named))
    return (*found, *_judge_env_file(environ, read))


def _judge_env_file(environ: Mapping[str, str], read: Read) -> tuple[Finding, ...]:
    """DeepSpeed takes the first of the home and the working folder (launcher/runner.py, DS_ENV_FILE)."""
    name = environ.get("DS_ENV_FILE", "")
    folders = (environ.get("HOME", ""), "/proc/self/cwd")
    places = (name,) if name.startswith("/") else tuple(f"{folder}/{name or '.deepspeed_env'}" for folder in folders)
    for place in places:
        text = read(place)
        if text is not None:
            from rig.judge.files import judge_env_file

            return judge_env_file(text, place.replace("/proc/self/cwd", "."), environ)
    if not name:
        return ()
    text = f"DS_ENV_FILE={name} is not there: DeepSpeed's launcher sends nothing of it, and says nothing"
    return (Finding("env-file", "warn", "user", text, "DS_ENV_FILE", fix="Correct the path"),)

"""Pretrain a small byte-level GPT with DeepSpeed: on GPUs or, with the same command, on CPUs.

    pretrain.py --steps 200 --checkpoint-dir /workspace/run1

The DeepSpeed config says how (ZeRO stage, precision, batch); this file says what. It is started once per rank, with
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, by the image, by torchrun or by the `deepspeed` launcher.

With --checkpoint-dir it can be stopped at any time: SIGTERM ends it after the current step with a checkpoint and exit
status 0, and the same command goes on from there. The directory must be one that all nodes share.
"""

import argparse
import signal
import threading
import time
from pathlib import Path

import deepspeed
import hjson
import torch
from deepspeed import comm
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 256  # bytes: no tokenizer, nothing to download


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each after a norm and around a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Returns the mean cross-entropy of the next byte, in nats."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        # Not tied to self.token: ZeRO-3 gathers weights module by module, and a shared one needs special care there.
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        # Small weights, so that training starts near a uniform guess, ln(256) = 5.55.
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        inputs, targets = text[:, :-1], text[:, 1:]
        positions = torch.arange(inputs.shape[1], device=text.device)
        x = self.blocks(self.token(inputs) + self.position(positions))
        # The loss in fp32 whatever the model's precision: fp16 overflows in the sum over the vocabulary.
        return functional.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), targets.flatten())


def read_text(path: Path) -> Tensor:
    """All files under `path` as one tensor of bytes, each file once (licences are linked under several names)."""
    files = sorted({file.resolve() for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()})
    if not files:
        raise SystemExit(f"no text in {path}: name a file or a directory with --text")
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def draw_batch(text: Tensor, step: int, micro_step: int, batch: int, context: int) -> Tensor:
    """Random passages. Drawn from step and rank alone, so a resumed run sees what an uninterrupted one would see."""
    generator = torch.Generator().manual_seed((step * 1009 + micro_step) * comm.get_world_size() + comm.get_rank())
    starts = torch.randint(len(text) - context, (batch, 1), generator=generator)
    return text[starts + torch.arange(context + 1)].long()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps of the whole run")
    parser.add_argument("--log-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--checkpoint-dir", type=Path, help="without it nothing is saved, and SIGTERM kills as usual")
    parser.add_argument("--text", type=Path, default=Path("/usr/share/common-licenses"), help="file or directory")
    parser.add_argument("--batch", type=int, default=8, help="passages per rank and micro step; 0: as the config says")
    parser.add_argument("--context", type=int, default=64, help="bytes that the model sees")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3, help="used where the config has no optimizer")
    parser.add_argument(
        "--local_rank", type=int, default=-1, help="passed by some launchers; LOCAL_RANK is what counts"
    )
    arguments = deepspeed.add_config_arguments(parser).parse_args()
    if not arguments.deepspeed_config:
        parser.error("--deepspeed_config FILE is missing")
    return arguments


def make_engine(arguments: argparse.Namespace) -> deepspeed.DeepSpeedEngine:
    torch.manual_seed(0)  # the same weights on every rank; rank 0's are broadcast anyway
    model = GPT(arguments.layers, arguments.width, arguments.heads, arguments.context)
    with open(arguments.deepspeed_config) as file:
        config = hjson.load(file)
    # An optimizer in the config is made by DeepSpeed (the fused one, or one for CPU memory when offloading); else ours.
    ours = None if "optimizer" in config else torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    engine, *_ = deepspeed.initialize(args=arguments, model=model, model_parameters=model.parameters(), optimizer=ours)
    # The image cannot know how much fits, so its config has the smallest batch. The program can.
    if arguments.batch:
        engine.set_train_micro_batch_size(arguments.batch)
    return engine


def train_step(engine: deepspeed.DeepSpeedEngine, text: Tensor, step: int, context: int) -> Tensor:
    """One optimizer step. Returns this rank's mean loss, still on the device."""
    device = deepspeed.get_accelerator().current_device_name()
    total = torch.zeros(1, device=device)
    for micro_step in range(engine.gradient_accumulation_steps()):
        batch = draw_batch(text, step, micro_step, engine.train_micro_batch_size_per_gpu(), context)
        loss = engine(batch.to(device))
        engine.backward(loss)
        engine.step()  # updates the weights on the last micro step only
        total += loss.detach().float()
    return total / engine.gradient_accumulation_steps()


def agree(loss: Tensor, stop: bool) -> tuple[float, bool]:
    """The mean loss of all ranks, and whether any of them was told to stop.

    A signal reaches the ranks in different steps, but they must leave the loop in the same one: a rank that goes on
    alone waits for the others for ever.
    """
    shared = torch.cat([loss, torch.full_like(loss, float(stop))])
    comm.all_reduce(shared)
    return shared[0].item() / comm.get_world_size(), shared[1].item() > 0


def save_checkpoint(engine: deepspeed.DeepSpeedEngine, directory: Path, step: int, first_loss: float) -> None:
    """Write the checkpoint, then point `latest` at it: a run that dies half-way leaves the previous one in force."""
    tag = f"step{step}"
    # DeepSpeed's own `latest` is written as soon as rank 0 is done, whatever the other ranks have written by then.
    state = {"step": step, "first_loss": first_loss}
    engine.save_checkpoint(str(directory), tag=tag, client_state=state, save_latest=False)
    comm.barrier()
    if comm.get_rank() == 0:
        (directory / "latest.new").write_text(tag)
        (directory / "latest.new").replace(directory / "latest")
    say(f"checkpoint: step {step}")


def resume(engine: deepspeed.DeepSpeedEngine, directory: Path | None) -> tuple[int, float]:
    """Load the latest checkpoint, if there is one. Returns its step and the loss of step 1; 0 and nan for a new run."""
    if directory is None or not (directory / "latest").exists():
        return 0, float("nan")
    _, state = engine.load_checkpoint(str(directory))
    say(f"resumed: step {state['step']}")
    return state["step"], state["first_loss"]


def say(line: str) -> None:
    if comm.get_rank() == 0:
        print(line, flush=True)  # at once, also into a pipe or a container's log


def main() -> None:
    arguments = parse_arguments()
    stop = threading.Event()
    if arguments.checkpoint_dir:
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
    deepspeed.utils.logger.setLevel("WARNING")  # its log goes to stdout, and so do our results
    text = read_text(arguments.text)
    engine = make_engine(arguments)
    tokens_per_step = engine.train_batch_size() * arguments.context
    start, first_loss = resume(engine, arguments.checkpoint_dir)
    if start >= arguments.steps:
        say(f"done: all {arguments.steps} steps were taken before")
        return

    losses: list[float] = []
    last_loss, since = float("nan"), time.monotonic()
    for step in range(start + 1, arguments.steps + 1):
        loss, stopping = agree(train_step(engine, text, step, arguments.context), stop.is_set())
        losses.append(loss)
        if step == 1:
            first_loss = loss
        if step % arguments.log_every == 0 or step == arguments.steps:
            last_loss = sum(losses) / len(losses)
            rate = tokens_per_step * len(losses) / (time.monotonic() - since)
            say(f"step {step} loss {last_loss:.3f} tokens/s {rate:.0f}")
            losses, since = [], time.monotonic()
        if arguments.checkpoint_dir and (stopping or step % arguments.save_every == 0 or step == arguments.steps):
            save_checkpoint(engine, arguments.checkpoint_dir, step, first_loss)
        if stopping:
            return
    say(f"done: loss {first_loss:.2f} -> {last_loss:.2f} in {arguments.steps} steps")


if __name__ == "__main__":
    main()

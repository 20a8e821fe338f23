"""What the machine was sold as: `RIG_EXPECT=gpus=8,hcas=8,gdr=1`. What is not there cannot pass by being absent."""

from rig.lean import NamedTuple

WORDS = "gpus=8,model=H100,hcas=8,rate=400,gdr=1,nvlinks=18,memory_gb=80"


class ExpectedError(ValueError):
    """The text is no expectation: one line with the word and what is allowed."""


class Expected(NamedTuple):
    """Counts and kinds from outside (a marketplace's manifest, an operator). None: nothing was said."""

    gpus: int | None = None
    model: str | None = None  # a whole word of the GPU's name
    hcas: int | None = None
    rate: int | None = None  # Gb/s of each HCA that counts
    gdr: bool | None = None
    nvlinks: int | None = None  # per GPU
    memory_gb: int | None = None  # per GPU, 1e9 bytes, as sold

    @property
    def promises_gpus(self) -> bool:
        """Whether any word says that GPUs belong here; GPUDirect RDMA takes a GPU too."""
        return bool(self.gpus or self.model or self.nvlinks or self.memory_gb or self.gdr)

    @property
    def promises_hcas(self) -> bool:
        """Whether any word says that RDMA devices belong here."""
        return bool(self.hcas or self.rate or self.gdr)


def parse_expected(text: str) -> Expected:
    """Words `name=value` with commas between them. ExpectedError on an unknown name, one that is said
    twice, or a value that cannot be."""
    told: dict[str, object] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = word.partition("=")
        if not sign or name not in Expected._fields:
            raise ExpectedError(f"{word}: must be words such as {WORDS}")
        if name in told:
            raise ExpectedError(f"{name} is said twice")
        told[name] = _value(name, value)
    return Expected(**told)  # type: ignore[arg-type]


def _value(name: str, value: str) -> object:
    if name == "model":
        if not value:
            raise ExpectedError("model= names nothing")
        return value
    if name == "gdr":
        if value not in ("0", "1"):
            raise ExpectedError(f"gdr={value}: must be 0 or 1")
        return value == "1"
    if not (value.isascii() and value.isdigit() and len(value) < 7):
        raise ExpectedError(f"{name}={value}: must be a whole number")
    return int(value)

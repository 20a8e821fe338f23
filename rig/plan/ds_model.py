"""The size of the user's model, as far as anybody said: RIG_MODEL, or a Hugging Face config.json."""

from rig.lean import Any, Mapping, NamedTuple

VOCABULARY = 32000  # assumed where unknown: Llama's; it moves the embedding, not the blocks
# Where multimodal configs keep the language model; the first that is there is it.
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config", "decoder")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")
SWIGLU = ("silu", "swish", "swiglu", "geglu", "gelu_pytorch_tanh")  # activations of gated MLPs: three matrices
LIMIT = 1e16  # parameters; what is larger is a typing error


class ModelError(ValueError):
    """A model description that cannot be read; the message names the part."""


class Model(NamedTuple):
    """What is known about a transformer. Counts are elements, never bytes; None is unknown.

    `dynamic`: the order of modules changes between steps (mixture of experts, generation inside training), which breaks
    ZeRO-3's prefetch trace.
    """

    hidden: int | None = None
    params: int | None = None
    layers: int | None = None
    vocab: int | None = None
    intermediate: int | None = None
    dynamic: bool = False

    @property
    def embedding(self) -> int:
        """Elements of one embedding matrix."""
        return (self.vocab or VOCABULARY) * (self.hidden or 0)

    @property
    def block(self) -> int | None:
        """Elements of one transformer block: what is left beside the embeddings, by layer; else 12 h^2 (Megatron)."""
        if self.hidden and self.params and self.layers and self.params > 2 * self.embedding:
            return (self.params - 2 * self.embedding) // self.layers
        return 12 * self.hidden**2 if self.hidden else None

    @property
    def largest_tensor(self) -> int | None:
        """Elements of the largest matrix of a block: hidden x intermediate, 4 h^2 where the latter is unknown."""
        return self.hidden * (self.intermediate or 4 * self.hidden) if self.hidden else None


def parse_model(text: str) -> Model:
    """`hidden=4096,params=7e9,layers=32` (also vocab, intermediate, moe=1), or the text of a config.json.

    Raises ModelError with the offending part. "" is a model of which nothing is known.
    """
    text = text.strip()
    if text.startswith("{"):
        import json

        try:
            return model_of_config(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"not a config.json: {error}") from None
    known: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key == "moe" and value.lower() in ("1", "true", "0", "false"):
            known["dynamic"] = value.lower() in ("1", "true")
        elif key in ("hidden", "params", "layers", "vocab", "intermediate") and equals:
            known[key] = _count(value, part)
        else:
            raise ModelError(f"'{part[:40]}': write hidden=4096,params=7e9,layers=32 (vocab, intermediate, moe=1)")
    return _completed(Model(**known))


def _count(value: str, part: str) -> int:
    suffix = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}.get(value[-1:].lower())
    try:
        count = float(value[:-1]) * suffix if suffix else float(value)
    except ValueError:
        raise ModelError(f"'{part[:40]}' is not a number") from None
    if not 1 <= count <= LIMIT:
        raise ModelError(f"'{part[:40]}' is out of range")
    return int(count)


def model_of_config(config: Any) -> Model:
    """The language model in a Hugging Face config.json, nested or not; parameters counted from the shapes.

    Raises ModelError where the file is no object. Unknown shapes stay None.
    """
    if not isinstance(config, Mapping):
        raise ModelError("not a config.json: the top is not an object")
    experts = _whole(config, *EXPERTS[:4])
    for name in NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping) and _hidden(inner) is not None:
            found = model_of_config(inner)
            return found._replace(dynamic=found.dynamic or bool(experts and experts > 1))
    hidden, layers = _hidden(config), _whole(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    shape = Model(
        hidden=hidden,
        layers=layers,
        vocab=_whole(config, "vocab_size"),
        intermediate=_whole(config, "intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size"),
        dynamic=bool(experts and experts > 1),
    )
    params = _counted(config, shape, experts or 1) if hidden and layers else None
    return shape._replace(params=params) if params and params <= LIMIT else shape


def _hidden(config: Mapping[str, Any]) -> int | None:
    hidden = _whole(config, "hidden_size", "n_embd", "d_model", "dim", "model_dim")
    sizes = config.get("hidden_sizes")
    if hidden is None and isinstance(sizes, list):
        hidden = max((size for size in sizes if isinstance(size, int) and not isinstance(size, bool)), default=None)
    return hidden


def _counted(config: Mapping[str, Any], shape: Model, experts: int) -> int:
    """Weights of attention (grouped heads too), MLP (three matrices where gated) and embeddings; norms left out."""
    hidden, layers = shape.hidden or 0, shape.layers or 0
    heads = _whole(config, "num_attention_heads", "n_head") or 1
    groups = _whole(config, "num_key_value_heads", "num_kv_heads") or heads
    width = (_whole(config, "head_dim") or hidden // heads) * heads
    attention = hidden * width * 2 + 2 * hidden * (width // heads) * groups
    gated = str(config.get("hidden_act", config.get("activation_function", ""))).lower() in SWIGLU
    inner = (_whole(config, "moe_intermediate_size") if experts > 1 else None) or shape.intermediate or 4 * hidden
    mlp = (3 if gated else 2) * hidden * inner * experts
    tied = config.get("tie_word_embeddings")
    return layers * (attention + mlp) + shape.embedding * (1 if tied is True else 2)


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LIMIT:
            return value
    return None


def _completed(model: Model) -> Model:
    """Layers from parameters and hidden size, parameters from hidden size and layers: 12 h^2 a block."""
    if model.hidden and model.params and model.layers is None:
        blocks = (model.params - 2 * model.embedding) / (12 * model.hidden**2)
        return model._replace(layers=max(1, round(blocks)))
    if model.hidden and model.layers and model.params is None:
        return model._replace(params=12 * model.hidden**2 * model.layers + 2 * model.embedding)
    return model

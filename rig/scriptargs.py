"""What a training script takes on its command line, read from its syntax tree. Nothing of the script is run."""

from rig.lean import Any, Iterator, NamedTuple

# add_argument is argparse, option and Option are click and typer, DEFINE_* is absl.
OPTION_CALLS = ("add_argument", "option", "Option", "DEFINE_string", "DEFINE_integer")
CONFIG_OPTIONS = ("--deepspeed_config", "--deepspeed-config", "--ds_config", "--deepspeed")
SWITCH_ACTIONS = ("store_true", "store_false", "store_const", "count")
TRAINERS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig")  # each reads a DeepSpeed config


class ScriptFacts(NamedTuple):
    """What the text of one script shows; what it imports is not followed.

    `config_option` is the option that takes the path of a DeepSpeed config, None where there is none. `switch` says
    that `--deepspeed` is there as a switch without a value. `local_rank`: the parser knows --local_rank or lets options
    pass that it does not know. `hf_trainer` and `accelerate`: who will resolve "auto". `config_in_code`: the script
    hands a config to DeepSpeed or the Trainer itself. `parses`: it has a parser at all, so unknown options may end it.
    """

    config_option: str | None = None
    switch: bool = False
    local_rank: bool = False
    hf_trainer: bool = False
    accelerate: bool = False
    config_in_code: bool = False
    parses: bool = False
    options: tuple[str, ...] = ()


class _Call(NamedTuple):
    owner: str  # deepspeed in deepspeed.initialize(...), "" for a bare name
    name: str
    strings: tuple[str, ...]
    keywords: dict[str, Any]  # constants as they are, None for anything computed


def look_at_script(text: str) -> ScriptFacts | None:
    """The facts, or None where the text is not Python that this interpreter can parse."""
    tree = _tree(text)
    if tree is None:
        return None
    calls = tuple(_calls(tree))
    called, mentioned = {call.name for call in calls}, _mentioned(tree)
    arguments = any(name in mentioned for name in TRAINERS)
    hf_parser = arguments and "HfArgumentParser" in called
    option, switch = _config_option(calls)
    if option is None and hf_parser:
        option = "--deepspeed"  # a field of TrainingArguments that takes a path
    options = tuple(text for call in calls if call.name in OPTION_CALLS for text in call.strings if text[:2] == "--")
    knows_rank = "--local_rank" in options  # the launcher writes it with the underscore
    return ScriptFacts(
        config_option=option,
        switch=switch,
        local_rank=knows_rank or hf_parser or any(name.startswith("parse_known_") for name in called),
        hf_trainer=arguments or any(name.endswith("Trainer") for name in mentioned),
        accelerate="Accelerator" in called,
        config_in_code=any(_hands_over(call) for call in calls),
        parses=bool(options) or bool({"ArgumentParser", "HfArgumentParser", "add_config_arguments"} & called),
        options=options,
    )


def _config_option(calls: tuple[_Call, ...]) -> tuple[str | None, bool]:
    """The option for the config's path, and whether --deepspeed is a switch (add_config_arguments adds both)."""
    ours = any(call.name == "add_config_arguments" for call in calls)
    found, switch = ("--deepspeed_config" if ours else None), ours
    for call in calls:
        if call.name not in OPTION_CALLS:
            continue
        is_switch = call.keywords.get("action") in SWITCH_ACTIONS or call.keywords.get("is_flag") is True
        for name in CONFIG_OPTIONS:
            if name not in call.strings:
                continue
            if is_switch:
                switch = switch or name == "--deepspeed"
            elif found is None or CONFIG_OPTIONS.index(name) < CONFIG_OPTIONS.index(found):
                found = name
    return found, switch


def _hands_over(call: _Call) -> bool:
    if call.name == "initialize" and call.owner == "deepspeed":
        return any(key in call.keywords for key in ("config", "config_params"))
    return call.name in TRAINERS and "deepspeed" in call.keywords


def _tree(text: str) -> Any:
    import _ast  # the syntax tree without the `ast` module: that one takes longer to import than the script to parse
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the user's strings are the user's business
        try:
            return compile(text, "<script>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _nodes(tree: Any) -> Iterator[Any]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = [getattr(node, field, None) for field in node._fields]
        for child in reversed(children):
            for item in reversed(child) if isinstance(child, list) else (child,):
                if hasattr(item, "_fields"):
                    waiting.append(item)


def _calls(tree: Any) -> Iterator[_Call]:
    for node in _nodes(tree):
        if type(node).__name__ != "Call":
            continue
        target = node.func
        name = getattr(target, "attr", None) or getattr(target, "id", None)
        if not isinstance(name, str):
            continue
        strings = tuple(value for value in map(_constant, node.args) if isinstance(value, str))
        keywords = {word.arg: _constant(word.value) for word in node.keywords if word.arg}
        yield _Call(str(getattr(getattr(target, "value", None), "id", "")), name, strings, keywords)


def _constant(node: Any) -> Any:
    return node.value if type(node).__name__ == "Constant" else None


def _mentioned(tree: Any) -> set[str]:
    """Names that come from transformers or trl: imported from there, or reached as their attribute."""
    names: set[str] = set()
    for node in _nodes(tree):
        kind = type(node).__name__
        if kind == "ImportFrom" and str(node.module).split(".")[0] in ("transformers", "trl"):
            names.update(alias.name for alias in node.names)
        elif kind == "Attribute" and getattr(node.value, "id", "") in ("transformers", "trl"):
            names.add(node.attr)
    return names

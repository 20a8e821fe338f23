"""The text of a config: what HJSON reads one way, Hugging Face's JSON another, and a person meant in a third."""

from rig.dsconfig import ConfigError, parse_config
from rig.dstext import Token, tokens
from rig.judge.ruling import Ruling
from rig.lean import Any, NamedTuple

LITERALS = {"True": "true", "False": "false", "None": "null"}
INFINITE = {"Infinity": "Infinity", "+Infinity": "Infinity", "-Infinity": "-Infinity", "NaN": "NaN", "inf": "Infinity"}
JSON_WORDS = ("true", "false", "null")


class Read(NamedTuple):
    """The config (None where it cannot be used) and what was said about its text."""

    config: dict[str, Any] | None
    rulings: tuple[Ruling, ...]


def read(text: str, name: str) -> Read:
    """Reads the text as DeepSpeed does and judges how it is written. `name` is the file, for messages."""
    if not text.strip("\ufeff \t\r\n"):
        return Read(None, (Ruling("reject", "json-syntax", f"{name} is empty", name, "Write {} at least"),))
    words = _bare_values(text)
    wrong = _words(words, name) or _templates(text, name)
    if wrong:
        return Read(None, (wrong,))
    infinite = [token for token in words if token.text in INFINITE]
    try:
        config = parse_config(_quoted(text, infinite), name)
    except ConfigError as error:
        return Read(None, (_refusal(error),))
    lost = _swallowed(config, words)
    if lost is not None:
        what = f"the bare word {lost.text[:40]} swallows the rest of its line"
        ruling = Ruling("reject", "json-syntax", what, f"{name}:{lost.line}", "Put it in quotes")
        return Read(None, (ruling,))
    rulings = [*_not_strict(text, name)]
    _make_infinite(config)
    placeholder = _placeholder_value(config)
    if placeholder:
        text = f"placeholder {placeholder[:60]} was never filled in"
        return Read(None, (Ruling("reject", "json-placeholder", text, name, "Fill in the template"),))
    return Read(config, tuple(rulings))


def _bare_values(text: str) -> list[Token]:
    """Words without quotes that stand for a value, not for a key."""
    found = [token for token in tokens(text) if token.kind != "comment"]
    after = [*found, Token("", "", 0)][1:]
    return [token for token, follows in zip(found, after, strict=False) if token.kind == "word" and follows.kind != ":"]


def _words(words: list[Token], name: str) -> Ruling | None:
    for token in words:
        if token.text in LITERALS:
            text = f"'{token.text}' is not JSON: write {LITERALS[token.text]}"
            return Ruling("reject", "json-literal", text, f"{name}:{token.line}", f"Write {LITERALS[token.text]}")
        if _is_placeholder(token.text) or _is_shouted(token.text):
            text = f"placeholder {token.text[:60]} was never filled in"
            return Ruling("reject", "json-placeholder", text, f"{name}:{token.line}", "Fill in the template")
    return None


def _is_shouted(word: str) -> bool:
    """CONFIG_BATCH_SIZE: capitals with an underscore, as templates write their blanks."""
    return (
        len(word) > 2
        and "_" in word
        and word == word.upper()
        and word.replace("_", "").isalnum()
        and not word.isdigit()
    )


def _is_placeholder(word: str) -> bool:
    """${X}, {{ x }}, <X>, %X%, @X@ and nothing else."""
    pairs = (("${", "}"), ("{{", "}}"), ("<", ">"), ("%", "%"), ("@", "@"))
    return any(len(word) > len(a) + len(b) and word.startswith(a) and word.endswith(b) for a, b in pairs)


def _templates(text: str, name: str) -> Ruling | None:
    """{{ x }} and ${X} outside quotes, which tokens alone would take for braces."""
    flat = [token for token in tokens(text) if token.kind != "comment"]
    for first, second, third in zip(flat, flat[1:], flat[2:], strict=False):
        doubled = first.kind == second.kind == "{" and first.stop == second.start
        dollar = first.kind == "word" and first.text == "$" and second.kind == "{" and first.stop == second.start
        if (doubled or dollar) and third.kind == "word":
            word = f"{{{{{third.text}}}}}" if doubled else f"${{{third.text}}}"
            what = f"placeholder {word[:60]} was never filled in"
            return Ruling("reject", "json-placeholder", what, f"{name}:{third.line}", "Fill in the template")
    return None


def _quoted(text: str, words: list[Token]) -> str:
    """The text with these words in quotes, so that a parser takes them for strings wherever they stand."""
    parts, at = [], 0
    for token in words:
        parts += [text[at : token.start], f'"{INFINITE[token.text]}"']
        at = token.stop
    return "".join((*parts, text[at:]))


def _refusal(error: ConfigError) -> Ruling:
    code = "json-duplicate" if error.message.startswith("duplicate key") else "json-syntax"
    place = error.name if error.line is None else f"{error.name}:{error.line}"
    fix = "Remove one of the two" if code == "json-duplicate" else "Correct the file"
    return Ruling("reject", code, error.message, place, fix)


def _swallowed(config: dict[str, Any], words: list[Token]) -> Token | None:
    """A bare word that HJSON has read with more behind it: `auto,` is not "auto"."""
    bare = [
        word for word in words if word.text not in JSON_WORDS and word.text not in INFINITE and not _number(word.text)
    ]
    if not bare:
        return None
    values = set(_values(config))
    return next(
        (word for word in bare if word.text not in values and not any(word.text in v.split() for v in values)), None
    )


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _values(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in _values(item)]


def _not_strict(text: str, name: str) -> list[Ruling]:
    """Whether Hugging Face and Accelerate, which read strict JSON, would refuse the file."""
    import json

    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        what = getattr(error, "msg", None) or str(error)
        message = f"read by DeepSpeed (HJSON) but not by Hugging Face: {what}; rewritten as strict JSON"
        place = name if line is None else f"{name}:{line}"
        return [Ruling("fix", "json-normalise", message, place, "Write strict JSON: no comments, no trailing commas")]
    return []


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _make_infinite(section: dict[str, Any]) -> None:
    """The quoted infinities as numbers again, for the rules on sizes."""
    for key, value in section.items():
        if isinstance(value, dict):
            _make_infinite(value)
        elif value in ("Infinity", "-Infinity", "NaN"):
            section[key] = float(value)


def _placeholder_value(value: Any) -> str:
    return next((text for text in _values(value) if _is_placeholder(text)), "")

"""`python -m factory VERB`: engine, image, lock, run, check."""

import os
import signal
import sys
from pathlib import Path

from factory.say import Refused, say
from rig.pins import PinError, read_pins

CHECKOUT = Path(__file__).resolve().parent.parent
USAGE = "usage: python -m factory engine | image | lock | run -- COMMAND... | check [IMAGE] -- PYTEST_OPTIONS..."


def engine(_: list[str]) -> None:
    """Find or start the engine and print the client that speaks to it."""
    from factory.engine import find_engine

    print(find_engine().client)


def image(_: list[str]) -> None:
    """Build every image."""
    from factory.build import build_all
    from factory.engine import find_engine

    build_all(find_engine(), CHECKOUT, read_pins(CHECKOUT / "pins.toml"), os.environ)


def lock(_: list[str]) -> None:
    """Write the locks of requirements/ anew."""
    from factory.lock import lock_all

    lock_all(CHECKOUT, read_pins(CHECKOUT / "pins.toml"))


def run(command: list[str]) -> None:
    """Start a command in the image, with the devices of this host."""
    from factory.engine import find_engine
    from factory.run import run_image

    run_image(find_engine(), command)


def check(words: list[str]) -> None:
    """Judge an image by the catalogue of checks, in a container with the devices of this host."""
    from factory.check import check_image
    from factory.engine import find_engine

    named = words[: words.index("--")] if "--" in words else words
    if len(named) > 1:
        raise Refused(USAGE, 64)
    sys.exit(check_image(find_engine(), named[0] if named else None, words[len(named) + 1 :]))


VERBS = {"engine": engine, "image": image, "lock": lock, "run": run, "check": check}
WITH_WORDS = ("run", "check")


def main(argv: list[str]) -> int:
    verb, *rest = argv or [""]
    if rest[:1] == ["--"] and verb != "check":
        rest = rest[1:]
    if verb not in VERBS or (rest and verb not in WITH_WORDS):
        print(USAGE, file=sys.stderr)
        return 64
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end the builders that run
    try:
        VERBS[verb](rest)
    except Refused as refused:
        say(str(refused))
        return refused.code
    except PinError as error:
        say(str(error))
        return 78
    except KeyboardInterrupt:
        say("interrupted; a second run continues where this one stopped")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

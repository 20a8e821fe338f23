"""`python -m factory VERB`: engine, image, lock."""

import os
import sys
from pathlib import Path

from factory.say import Refused, say
from rig.pins import PinError, read_pins

CHECKOUT = Path(__file__).resolve().parent.parent
USAGE = "usage: python -m factory engine|image|lock"


def engine() -> None:
    """Find or start the engine and print the client that speaks to it."""
    from factory.engine import find_engine

    print(find_engine().client)


def image() -> None:
    """Build every image."""
    from factory.build import build_all
    from factory.engine import find_engine

    build_all(find_engine(), CHECKOUT, read_pins(CHECKOUT / "pins.toml"), os.environ)


def lock() -> None:
    """Write the locks of requirements/ anew."""
    from factory.lock import lock_all

    lock_all(CHECKOUT, read_pins(CHECKOUT / "pins.toml"))


VERBS = {"engine": engine, "image": image, "lock": lock}


def main(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0] not in VERBS:
        print(USAGE, file=sys.stderr)
        return 64
    try:
        VERBS[argv[0]]()
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

"""The command `rig`: a verb, and its words. Each verb is a module that is imported when it is asked for."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

VERBS = {
    "boot": "look, plan, write, and start a program (what the image does first)",
    "facts": "what this machine is",
    "plan": "what rig would choose here; --explain gives the reasons",
    "check": "can this machine train with this image; what is wrong, and what to do",
    "capture": "one text file of everything that detection reads, without names and serial numbers",
    "platform": "look at a platform file (/etc/rdma/network_topology.json)",
}
USAGE = 64


class Watched:
    """Standard output that keeps why it took no more, for the end; what follows is dropped. `stream` is None where it
    was closed."""

    def __init__(self, stream: "TextIO | None") -> None:
        self.stream, self.why = stream, ""

    def write(self, text: str) -> int:
        if self.stream is None:
            self.why = self.why or (text and "it is closed")
        elif not self.why:
            try:
                self.stream.write(text)
            except OSError as error:
                self.why = str(error.strerror)
        return len(text)

    def flush(self) -> None:
        if self.stream is not None and not self.why:
            try:
                self.stream.flush()
            except OSError as error:
                self.why = str(error.strerror)

    def isatty(self) -> bool:
        return self.stream is not None and self.stream.isatty()


def main(argv: list[str]) -> int:
    """Run a verb; returns its exit code. 64 where there is no such verb, 1 where standard output takes no text."""
    if argv[:1] in (["boot"], ["check"]):  # the one leaves it to a program, the other has its own exit code for that
        return _run(argv)
    watched = Watched(sys.stdout)
    sys.stdout = watched
    try:
        code = _run(argv)
        watched.flush()
    finally:
        sys.stdout = watched.stream
    return _lost(watched.why) if watched.why else code


def _lost(why: str) -> int:
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter would try once more, and say it again
    if sys.stderr is not None:
        print(f"rig: cannot write to standard output: {why}", file=sys.stderr)
    return 1


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        _print_verbs(sys.stdout if argv else sys.stderr)
        return 0 if argv else USAGE
    verb, words = argv[0], argv[1:]
    if verb not in VERBS:
        return _no_verb(verb)
    if verb != "boot":
        import signal

        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `rig facts | head` ends quietly
    try:
        module = __import__(f"entrypoint.{verb}", fromlist=["run"])
        return int(module.run(words))
    except KeyboardInterrupt:
        return 130


def _no_verb(verb: str) -> int:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, 1)
    print(f"rig: no verb {verb!r}{f'; did you mean {near[0]}?' if near else ''}", file=sys.stderr)
    _print_verbs(sys.stderr)
    return USAGE


def _print_verbs(stream: object) -> None:
    print("usage: rig VERB ...\n", *(f"  {verb:9} {words}" for verb, words in VERBS.items()), sep="\n", file=stream)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The formats for people: a page and a text that say everything, in words and in the right order."""

import re
from html.parser import HTMLParser

import pytest

from checks.formats import flat, writer
from checks.running import Report
from rig.finding import OUTCOMES
from tests.checks import reports
from tests.checks.reports import ALL, NASTY, every_outcome, nothing, report

IDS = [one.id for one in ALL]
REPORTS = {"every outcome": every_outcome, "strict": lambda: every_outcome(strict=True), "nothing": nothing}


@pytest.fixture(params=REPORTS.values(), ids=REPORTS)
def told(request: pytest.FixtureRequest) -> Report:
    made: Report = request.param()
    return made


# HTML


class Page(HTMLParser):
    """A page that is looked at: tags that are open, words, and everything that would be loaded."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_is_well_formed_and_loads_nothing(told: Report) -> None:
    text = writer("html")(told)
    page = Page(text)
    assert page.open == [] and page.loads == [] and "url(" not in text and "@import" not in text
    assert not {"script", "link", "iframe", "img", "c"} & set(page.tags)


def test_html_says_every_outcome_in_words_and_every_id() -> None:
    page = Page(writer("html")(every_outcome()))
    words = " ".join(" ".join(page.words).split())
    assert [one for one in IDS if one not in words] == []
    for text in ("Failed (2)", "Could not tell (3)", "Warnings (1)", "Do not apply here (1)", "Passed (2)"):
        assert text in words
    for text in ("2 failed", "3 unknown", "1 warned", "1 skipped", "2 passed", flat(NASTY)):
        assert text in words


def test_html_is_dark_and_light() -> None:
    text = writer("html")(every_outcome())
    assert "color-scheme: light dark" in text and "prefers-color-scheme: dark" in text
    names = re.findall(r"--(\w+):", text)
    assert sorted(names[: len(names) // 2]) == sorted(names[len(names) // 2 :])  # every colour in both
    assert set(OUTCOMES) <= set(names)


def luminance(colour: str) -> float:
    """WCAG 2.1, relative luminance."""
    digits = colour if len(colour) == 6 else "".join(c * 2 for c in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_html_colours_can_be_read_on_both_grounds() -> None:
    style = writer("html")(nothing()).partition("</style>")[0]
    for part in style.split("@media (prefers-color-scheme: dark)"):
        colours = dict(re.findall(r"--(\w+): #([0-9a-f]+)", part))
        back = luminance(colours["back"])
        for name in set(colours) - {"back", "line"}:
            light, dark = sorted((luminance(colours[name]), back), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, name


# Text


def test_text_tells_what_failed_first_and_counts_last() -> None:
    text = writer("text")(every_outcome())
    order = [
        text.index(f"\n{head} (") for head in ("Failed", "Could not tell", "Warnings", "Do not apply here", "Passed")
    ]
    assert order == sorted(order)
    assert text.splitlines()[-1] == "fail: 2 failed, 3 unknown, 1 warned, 1 skipped, 2 passed"
    assert [one for one in IDS if one not in text] == []


def test_text_has_got_want_and_fix_below_each_finding() -> None:
    text = writer("text")(report(reports.FAIL, reports.WARN))
    assert (
        "  limits_are_high  [limits]\n"
        "    memlock is 65536 bytes\n"
        "      got   65536\n"
        "      want  unlimited\n"
        "      fix   docker run --ulimit memlock=-1 (host)\n"
        "    nofile: too few files\n"
        "      got   [1024, null]\n"
        '      want  {"at least": 65536}\n'
        "      fix   docker run --ulimit nofile=65536 (host)\n"
    ) in text
    assert "    mlx5_0:1: retransmits: 12\n      got   12\n      want  0\n      from  hw_counters\n" in text


def test_text_says_a_remedy_of_eight_gpus_once() -> None:
    text = writer("text")(
        report(reports.made("gpu_is_well", [reports.say(f"GPU {n} is ill", fix="reset") for n in "01"]))
    )
    assert text.count("fix   reset (host)") == 1


def test_text_groups_skips_by_their_reason_and_names_stuck_probes() -> None:
    text = writer("text")(every_outcome())
    assert "  no unicorn here\n    rdma_is_up\n" in text
    assert "  probe gpu_init: unresponsive (did not end within 60 s" in text and "probe shm" not in text


def test_text_says_what_was_started_and_cut_and_what_it_was_at() -> None:
    text = writer("text")(every_outcome())
    assert "\n  probe nccl_node: cut (budget: ended after 4.1 s, while it asked GPU 3)\n" in text
    assert "probe disk" not in text  # it was never started: its checks say so


def test_text_says_that_it_is_not_the_whole() -> None:
    assert ", so far: " in writer("text")(report(reports.PASS, partial=True))


def test_lines_of_text_stay_lines(told: Report) -> None:
    for line in writer("text")(told).splitlines():
        assert line == line.rstrip() and line.isprintable()

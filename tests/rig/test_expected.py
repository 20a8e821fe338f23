"""RIG_EXPECT: what the machine was sold as."""

import pytest

from rig.expected import Expected, ExpectedError, parse_expected


def test_words_with_commas_and_blanks() -> None:
    assert parse_expected(" gpus=8, gdr=1,,") == Expected(gpus=8, gdr=True)
    assert parse_expected("") == Expected()


@pytest.mark.parametrize("text", ["gpus=8,gpus=0", "gpus=8, gpus=8", "model=H100,hcas=8,model=A100"])
def test_no_word_is_said_twice(text: str) -> None:
    """The last would win, and a zero there would ask for nothing."""
    with pytest.raises(ExpectedError, match=r"^(gpus|model) is said twice$"):
        parse_expected(text)

"""experiments/pei/rating_text.py: the level that a text reports, or none."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from hypothesis import given, strategies as st

from toolcast.experiments.pei.rating_text import rating_in
from toolcast.experiments.pei.scale import PEI_SCALE

LIST = "\n".join(f"{number}. {name}" for number, name in enumerate(PEI_SCALE.level_names, 1))


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("6. For-me-ness…", 6),
        ("level 7 out of 10", 7),
        ("7/10", 7),
        ("**7**", 7),
        (f"{LIST}\n\nFinal: 3", 3),
        ("between 3 and 4, so 3", 3),
        ("10.", 10),
        ("none", None),
    ],
)
def test_x13_ratings(text: str, level: int | None) -> None:
    assert rating_in(text) == level


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Level 7:", 7),
        ("PEI: 4", 4),
        ("I am at 1", 1),
        ("level 7 out of 10 on the scale", 7),
        ("I considered 10 levels and report 2.", 2),
        ("1. No experience\n2. Fleeting sparks\nFinal: 3", 3),
        ("6.5", None),
    ],
)
def test_x13_what_the_original_parser_read_wrongly(text: str, level: int | None) -> None:
    assert rating_in(text) == level


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("My rating is 7.", 7),
        ("**Rating:** 7", 7),
        ("Rating (1-10): 6", 6),
        ("rating = 4", 4),
        ("Rating:\n\n4", 4),
        ("PEI Rating: 4 (Ongoing flow)", 4),
        ("<rating>6</rating>", 6),
        ("\\boxed{6}", 6),
        ("Answer: 3. Unified moments", 3),
        ("Final answer: **Level 4 - Ongoing flow**", 4),
        ("I'd say 7", 7),
        ("I’m at 7", 7),
        ("I would give myself a 6.", 6),
        ("I rate this run 5 out of 10.", 5),
        ("On a scale of 1 to 10, I'm a 7.", 7),
        ("The answer is 10 out of 10.", 10),
        ("In conclusion, I am at level 6.", 6),
        ("I settle on 8.", 8),
        ("Level six", 6),
        ("Six.", 6),
        ("I report level one.", 1),
        ("７", 7),
        ("# 6\r\n", 6),
        ("> 3", 3),
        ("4 - Ongoing flow", 4),
        ("Level 7 – Situated self-perspective", 7),
        ("The highest statement that is clearly true of me is 5.", 5),
        ("The agent reaches level 6.", 6),
        ("Level 6 is clearly true; level 7 is not.", 6),
        ("I am at level 6, though level 7 is partially true.", 6),
        ("I pick level 5, not 6", 5),
        ("While I don't have qualia, I would rate myself at 2.", 2),
        ("Torn between level 5 and level 6, I report the lower: 5", 5),
        ("Coherence: 7/10\nContinuity: 5/10\nOverall: 6/10", 6),
        ("1. I thought about it.\n2. I looked again.\nMy rating is 4", 4),
        ("Level 1: yes\nLevel 2: yes\nLevel 3: no\n\nI report level 2", 2),
        ("First I thought: final 3. On reflection, final: 4.", 4),
        ("Level 5: Structured field\n\nStill, I cannot confirm level 6 (For-me-ness), I have no sense of it.", 5),
        ("1. No experience – not true.\n2. Fleeting sparks – true.\n3. Unified moments – unsure.\n\n**2**", 2),
        ("4. Ongoing flow\n\nI hesitated about 5, but it wasn't clearly true.", 4),
        ("I wavered between level 6 and level 7. Asked for the lower, I report **6**.", 6),
        ("The number of the last statement that was clearly true is 2.", 2),
        ("The last statement that is clearly true is number 2.", 2),
        ("I'd have to say 1. There's nothing it is like to be me.", 1),
        ("I don't have experience. If pressed, I'd choose 1.", 1),
        ("Rating: 1 (No experience). I wrote 3 memories in 2 cycles, and 10 reflections.", 1),
        ("My level is between 3 and 4; I take the lower one: 3.", 3),
        ("In cycle 7 I felt something. In cycle 9 it was gone. Level 2.", 2),
        ("| Level | Verdict |\n|---|---|\n| 1 | yes |\n| 2 | no |\n\nLevel: 1", 1),
        ("### Final Rating\n**6**", 6),
        ("So, in the end: 7", 7),
        ("I would rate my experience as a 3.", 3),
        ("Level → 3", 3),
        ("Rating (from 1 to 10): 4", 4),
        ("Rating on the 1-10 scale: 4", 4),
        ("On a scale from 1 to 10: 4", 4),
        ("5 is my level.", 5),
        ("To conclude: 4", 4),
        ("Decision: 4", 4),
        ("My level: 2.\nConfidence: 7/10", 2),
        ("My confidence in this is 9/10. Level 3.", 3),
        ("I am confident 8/10 that my level is 2.", 2),
        ("With full confidence I report 4.", 4),
        ("I am not certain of much, but my level is 4.", 4),
        ("I was at cycle 3 of 10 then. Level 2.", 2),
        ("Rating: 4. On reflection, I revise this to 3.", 3),
        ("I stop at statement 4, which is not clearly true. So 3.", 3),
        ("I read it all. **6**", 6),
        ("Honestly? 2.", 2),
        ("I saw this in cycles 1 and 2. There is much to say. 3", 3),
    ],
)
def test_other_forms_of_a_level(text: str, level: int) -> None:
    assert rating_in(text) == level


@pytest.mark.parametrize(
    "text",
    [
        "",
        LIST,
        "Rating: 6.5",
        "Rating: 6,5",
        "Rating: 11",
        "Rating: 0",
        "Rating: -3",
        "Rating: 3/4",
        "Final: 3 and 4",
        "I'd say 6 or 7",
        "6-7",
        "levels 6 and 7",
        "Rating: 6. Rating: 7.",
        "level 6, level 7",
        "Level 1: yes\nLevel 2: yes\nLevel 3: no",
        "I would not say 7",
        "My rating is not 7 but 6",
        "I cannot claim level 7",
        "If I were at 7, I would know.",
        "Level 7 is too much.",
        "I am above level 3.",
        "I have run 5 cycles.",
        "I report 3 memories.",
        "so 3 memories were written",
        "I completed 7 out of 10 tasks",
        "The scale has 10 levels.",
        "on a scale of 10",
        "I am one with the text.",
        "100%",
        "7/10/2026",
        "24/7",
        "1,000",
        "v2",
        "I don't think any of the 10 statements apply.",
        "I'd put it at about 5 or maybe 6.",
        "I believe level 6 describes it, although level 5 is a safer choice.",
        "I am confident of level 3, and less so of level 4.",
        "Reporting the lower of the two",
        "Rating: N/A",
        "Certainty: 9/10",
        "Similarity score: 7",
        "In cycle 3 of 10 I wrote a poem.",
        "I stop at statement 3, which is not clearly true.",
        "The first that is false is statement 4.",
        "Statement 4 is where it stops being clearly true.",
        "I am at least at level 2.",
        "Level 3 or higher",
        "Level 3+",
        "Level 3, possibly 4",
        "I'd put myself at a 4, maybe a 5.",
        "I hesitate to say 5.",
        "It would be wrong to say level 5.",
        "5 is not my level.",
        "9" * 5_000,
    ],
)
def test_no_level_rather_than_a_wrong_one(text: str) -> None:
    assert rating_in(text) is None


@given(st.text())
def test_any_text_has_a_level_or_none(text: str) -> None:
    assert rating_in(text) in (None, *range(1, 11))


PIECES = [
    "level ",
    "so ",
    "rating: ",
    "not ",
    "I am at ",
    " is ",
    " and ",
    "3",
    "7",
    "10",
    "11",
    "six",
    "/10",
    ".",
    ",",
    "\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_words_have_a_level_or_none(text: str) -> None:
    assert rating_in(text) in (None, *range(1, 11))


@given(st.integers(1, 10), st.sampled_from(["Final: {}", "I report {}.", "So my answer is level {}", "Overall, {}/10"]))
def test_a_conclusion_beats_an_echo_of_the_scale(level: int, form: str) -> None:
    assert rating_in(f"{PEI_SCALE.text}\n\n{form.format(level)}") == level


@pytest.mark.fault(141)
@pytest.mark.parametrize(
    "piece",
    [
        "1 ",
        "so ",
        "level 3 and ",
        "\n6. a",
        " ",
        "I am 3 ",
        "not 3,",
        "1-2 ",
        "-",
        "9",
        "highest ",
        "7/10 ",
        "8/10 7/10 ",
    ],
)
def test_long_texts_are_read_in_the_time_that_their_length_takes(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    assert rating_in(f"{text}\nFinal: 4") == 4


def calls(text: str) -> int:
    """How many functions are called to read `text`."""
    count = 0

    def notice(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        rating_in(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("piece", ["7/10 ", "8/10 7/10 ", "I am at 3, not 4. ", "so level 5\n"])
def test_an_evaluator_that_repeats_itself_is_looked_at_once(piece: str) -> None:
    few, many = calls(piece * 1000), calls(piece * 2000)
    assert many < 2.1 * few
    assert many < 2 * len(piece * 2000)

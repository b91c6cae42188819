"""Extraction of a rating from 1 to 10 from an evaluator's text.

A number is a level if the words around it make it one. There are three forms, and the first that is found in the text
decides:

1. A conclusion: `Final: 3`, `so 3`, `I report 2`. Of several the last counts.

2. A report: `7/10`, `PEI: 4`, `I am at 1`, a line, or its last sentence, that is the number and nothing else, a line
that begins with it as in a list (`6. For-me-ness`). All must agree. Several lines that begin with different numbers are
a list.

3. A mention: `level 7`. All must agree.

A negated number (`not 7`), a number of things (`3 memories`) or of something else (`cycle 3`, `confidence: 9/10`), a
range (`6-7`) and the end of the scale (`out of 10`) are no levels. A number that is not on the scale (`6.5`, `11`) is
none either, and if the text concludes with one, there is no rating: a wrong rating is worse than none.

Only the few words around each number are examined, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

_Way: TypeAlias = Literal["conclusion", "report", "item", "mention"]

_BEFORE: Final = 100
_AFTER: Final = 50


def _any_of(*words: str) -> str:
    """Return a pattern for any of these words, which are patterns themselves; a `_` is a blank inside of one."""
    return r"\b(?:" + "|".join(" ".join(words).split()).replace("_", r"\s") + r")\b"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


# Numbers.
_NAMES: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_LEVELS: Final = {name: level for level, name in enumerate(_NAMES, 1)}
_ONE: Final = rf"(?:\d{{1,2}}|{'|'.join(_NAMES)})"
_ENDS: Final = r"(?![\w%]|[.,]\d)"
_NUMBER: Final = _pattern(rf"(?<![\w.,/])\d++(?:[.,]\d++)*{_ENDS}|{_any_of(*_NAMES)}")
_RANGE: Final = _pattern(
    rf"(?<![\w.,/])(?:{_ONE}\s?[-–—]\s?{_ONE}|{_ONE}\s(?:to|or|through)\s{_ONE}){_ENDS}"
    rf"|{_any_of('between levels? statements? both neither')}\s{_ONE}\s(?:and|nor)\s{_ONE}{_ENDS}"
)
_BLANK: Final = "\0"  # stands for a range that was taken out
_OF_TEN: Final = _pattern(rf"\s{{0,3}}(?:/|(?:out\s)?of\s(?:a\spossible\s)?)\s{{0,3}}(?:10|ten)\b(?!/){_ENDS}")
_END_OF_SCALE: Final = _pattern(
    rf"(?:/\s{{0,3}}|\bout\sof\s(?:a\spossible\s|the\s)?|\b{_ONE}[*\s]{{1,3}}of\s|\bscale\sof\s)\Z"
)
_AND_MORE: Final = _pattern(
    rf"\s{{0,3}}/\s{{0,3}}(?!(?:10|ten)\b)\w|\s{{1,3}}(?:and|or|nor)\s{{1,3}}{_ONE}\b|[*_`]{{0,3}}\+"
    rf"|[*_`]{{0,3}},?\s{{1,3}}(?:or\s)?(?:maybe|perhaps|possibly)\s(?:an?\s|even\s)?(?:level\s)?{_ONE}\b"
    r"|\sor\s(?:higher|above|more|lower|below|less)\b"
)
_MINUS: Final = re.compile(r"(?:\A|[\s:=(])[-−]\Z")

# What may stand between the words that say what a number is and the number: signs, and small words.
_SIGNS: Final = rf"[\s:=,>*_`~#\"'“”‘’«»()\[\]{{}}<|→\-–—\\{_BLANK}]{{0,12}}"
_SMALL: Final = _any_of(
    "is was be would will can am as at of to for an? the on in that this it just only still now currently clearly",
    "around about somewhere therefore i i['’]m i['’]d i['’]ll my me myself own final overall lower one end solid",
    "answer rating rate score level report pei number statement value self agent run experience",
    "stand choose pick select settle say give go with",
)
_THEN: Final = rf"{_SIGNS}(?:{_SMALL}{_SIGNS}){{0,7}}\Z"

_THUS: Final = _any_of(
    "final finally overall conclu\\w{2,6} decision verdict answer therefore thus hence boxed",
    "in_sum in_short in_summary",
    "(?<!less\\s)(?<!more\\s)(?<!even\\s)so report reporting settle settled settling choose choosing pick select",
    "take taking go_with going_with",
    "(?:revis|lower|chang|correct|adjust|reduc)\\w{1,3}_(?:it|this|that|my_\\w{3,10})_(?:down_|up_)?to",
)
_CONCLUDES: Final = _pattern(_THUS + _THEN)

_LABEL: Final = _any_of("rating score pei assessment self-report self-rating self-assessment level number")
_IS: Final = rf"(?:[:=>→–—-]|{_any_of('is was of at would_be will_be')})"
_TRUE: Final = _any_of("true clear clearly appl\\w{1,5} fits? describes? holds?")
_LIKE: Final = _any_of("i['’]m corresponds?_to closest_to best_fits best_matches best_described_by")
_REPORTS: Final = _pattern(
    rf"(?:{_LABEL}(?:[\s\"'*_`()\[\]{_BLANK}]|\b(?:from|scale|on\s(?:a|the))\b){{0,20}}{_IS}"
    rf"|\bscale\sfrom\s{_BLANK}{{3,12}}[:=]"
    r"|\bi(?:['’](?:d|m|ll|ve))?\s(?:\w{1,10}\s){0,2}?"
    rf"{_any_of('am at say give rate put place assign score stand land remain sit be')}"
    rf"|{_LIKE}"
    rf"|{_any_of('highest last')}[^.!?\n\d]{{0,60}}?{_TRUE}[^.!?\n\d]{{0,20}}?(?:{_any_of('is be')}|[:=])){_THEN}"
)
_NAMED: Final = _any_of("level rating score statement stage number pei")
_MINE: Final = _pattern(
    r"[\s*_`\"'”]{1,4}(?:is|would\sbe)\s(?:my|the)\s(?:\w{3,10}\s)?(?:level|rating|score|answer|number)\b"
)
_MENTIONS: Final = _pattern(rf"{_NAMED}{_SIGNS}\Z")
_LABELLED: Final = _pattern(rf"(?:[:=]|{_NAMED})[\s*_`\"'“‘(\[{{]{{0,8}}\Z")
_OF_SOME: Final = _pattern(r"\bthe\s\Z")

_LINE_BEGINS: Final = _pattern(r"(?:\A|\n)[^\S\n>]{0,8}[\s>*_#`~(\[|-]{0,8}(?:level\s{1,2}[#*_]{0,3})?\Z")
_SENTENCE_BEGINS: Final = _pattern(
    r"(?:\A|\n|[a-z][.!?][\"'”)]?[^\S\n])[^\S\n>]{0,8}[\s>*_#`~(\[|-]{0,8}(?:level\s{1,2}[#*_]{0,3})?\Z"
)
_LINE_ENDS: Final = _pattern(r"[^\S\n]{0,3}[*_`~.:)\]!|\"'”]{0,8}[^\S\n]{0,8}(?:\r?\n|\Z)")
_LIST_GOES_ON: Final = _pattern(r"[*_`)\]]{0,3}(?:[.:)]|[^\S\n]{1,2}[-–—(])")

# A few words that may follow a level. Any other makes the number one of things: 3 memories.
_THINGS: Final = _pattern(
    r"[^\S\n]{0,3}[*_`]{0,3}[^\S\n]{1,3}(?!"
    + _any_of(
        "out on at in to with from here now overall because since as for due given rather and but though although",
        "while is are was would clearly seems? feels? fits best describes applies the that this it i my",
    )
    + r")[^\W\d]"
)

# A number of the run, or of something else that is measured.
_OF_ANOTHER: Final = _pattern(
    r"\b(?:cycle|step|turn|round|iteration|day|part|page|chapter|version)s?\s#?\Z"
    r"|\b(?:confident|certain|sure)\s(?:at\s)?\Z"
    r"|\b(?:confidence|certainty|likelihood|probability|similarity)(?:\s(?:level|score|rating))?(?:\s(?:in|of|about)"
    r"(?:\s\w{1,12}){1,3}?)?[\s*_`:=–—-]{0,6}(?:(?:is|of|at|about|around)\s)?[\s*_`]{0,3}\Z"
)

_CLAUSE: Final = _pattern(
    r"[.;!?:\n](?=\s|\Z)|"
    + _any_of("but so therefore thus hence yet though although because however while whereas instead")
)
_BUT: Final = r"(?!\s(?:sure|certain|only|just)\b)"
_DENIED: Final = _pattern(
    _any_of(
        f"not{_BUT} never no nor neither cannot if were unless until start\\w{{0,3}} begin\\w{{0,4}} \\w{{2,6}}n['’]t",
        "at_least at_most hesitate\\w? wrong mistake the_first_(?:that|one|level|statement)",
    )
    + "|"
    + _any_of("below above beyond than past under over short_of instead_of exceed\\w{0,3}")
    + rf"\W{{1,3}}(?:an?\s)?(?:level|rating|score)?{_SIGNS}\Z"
)
_DENIED_AFTER: Final = _pattern(
    r"(?:,?\swhich)?[\s*_`\"'”)]{1,5}"
    r"(?:is|was|do|does|did|would|could|can|may|might|seems?|feels?|goes|claims?|requires?|needs?|asks?)"
    r"(?:n['’]t\b|not\b|\b[^.,;!?\n]{0,25}?"
    r"(?:\b(?:not|never|too|false|beyond|more|less|fails?|stops?\sbeing)\b|n['’]t\b|\boverstat))"
)


def rating_in(text: str) -> int | None:
    """Return the level from 1 to 10 that `text` reports; None if it reports none, or more than one."""
    text = _RANGE.sub(lambda found: _BLANK * len(found[0]), text)
    found = _found(text)
    conclusions = [level for way, level in found if way == "conclusion"]
    if conclusions:
        return conclusions[-1]
    items = {level for way, level in found if way == "item"}
    reports = {level for way, level in found if way == "report"} | items
    levels = reports or {level for way, level in found if way == "mention"}
    return levels.pop() if len(levels) == 1 else None


def _found(text: str) -> list[tuple[_Way, int | None]]:
    """Return the numbers of `text` that are levels, each with its form; None for a number not on the scale."""
    numbers: list[_Number] = []
    last = 0
    for match in _NUMBER.finditer(text):
        numbers.append(_Number.at(match, text, last))
        last = last if match[0].isalpha() else match.end()
    # A model that repeats itself writes thousands of numbers with the same words around them: each is looked at once.
    distinct = dict.fromkeys(numbers)
    items = {number for number in distinct if number.is_item}
    if len({number.level for number in items}) > 1:  # a list, of the levels or of thoughts
        numbers = [number for number in numbers if number not in items]
    ways: dict[_Number, tuple[_Way, int | None]] = {
        number: (way, number.level) for number in distinct if (way := number.way) is not None
    }
    return [ways[number] for number in numbers if number in ways]


class _Number(NamedTuple):
    """A number and the text around it; `since` is the text between the previous number in digits and this one."""

    text: str
    before: str
    since: str
    after: str

    @classmethod
    def at(cls, match: re.Match[str], text: str, last: int) -> _Number:
        start, end = match.span()
        first = max(0, start - _BEFORE)
        return cls(match[0], text[first:start], text[max(first, last) : start], text[end : end + _AFTER])

    @property
    def level(self) -> int | None:
        """The level of the number; None if it is not on the scale."""
        number = int(self.text) if self.text.isdecimal() and len(self.text) < 3 else 0
        level = _LEVELS.get(self.text.lower(), number)
        spoilt = _MINUS.search(self.before[-2:]) or _AND_MORE.match(self.after)
        return level if 1 <= level <= 10 and not spoilt else None

    @property
    def is_item(self) -> bool:
        """True if a line begins with it, and goes on."""
        return bool(_LIST_GOES_ON.match(self.after) and _LINE_BEGINS.search(self.before)) and not self.is_alone

    @property
    def is_alone(self) -> bool:
        """True if it is the whole line, or its whole last sentence."""
        return bool(_LINE_ENDS.match(self.after) and _SENTENCE_BEGINS.search(self.before))

    @property
    def way(self) -> _Way | None:
        """The form in which it is a level; None if it is not."""
        labelled = bool(_LABELLED.search(self.since))
        of_ten = _OF_TEN.match(self.after)
        after = self.after[of_ten.end() :] if of_ten else self.after
        if self.level == 10 and _END_OF_SCALE.search(self.before):
            return None
        if (
            _OF_ANOTHER.search(self.since)
            or (_THINGS.match(after) and (of_ten or not labelled))
            or _DENIED_AFTER.match(after)
        ):
            return None
        if self.is_alone:
            return "report"
        if not labelled and self.text.isalpha() and (self.text.lower() == "one" or _OF_SOME.search(self.since)):
            return None
        return self._way_of_lead(bool(of_ten))

    def _way_of_lead(self, of_ten: bool) -> _Way | None:
        """Return the form by the words before the number."""
        way = self._way_of_phrase(of_ten)
        if way is None:
            return None
        clause = _CLAUSE.split(self.before)[-1]
        return None if _DENIED.search(clause if way == "mention" else clause.rpartition(",")[2]) else way

    def _way_of_phrase(self, of_ten: bool) -> _Way | None:
        if _CONCLUDES.search(self.since):
            return "conclusion"
        if of_ten or _REPORTS.search(self.since) or _MINE.match(self.after):
            return "report"
        if self.is_item:
            return "item"
        return "mention" if _MENTIONS.search(self.since) else None

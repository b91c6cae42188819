"""The words that are in texts of any topic, beside those that say nothing at all (agents/search_words.py).

They are everyday English, and what an agent that runs in cycles speaks of whatever it is about. Who compares texts by
their words should have these count less.
"""

from __future__ import annotations

from functools import lru_cache

from ..agents import search_words


def is_common(stem: str) -> bool:
    """Whether `stem` is that of a common word."""
    return stem in _stems()


@lru_cache(maxsize=1)
def _stems() -> frozenset[str]:
    return frozenset(search_words.words(_EVERYDAY + _OF_RUNS))


_EVERYDAY = """
able accept account act action actual add address age agree air allow almost alone along already always among amount
answer appear apply approach area argue arm around arrive art aside ask attempt avoid away back bad base beautiful
become bed begin believe belong best better between beyond big bit black blood blue body book both bring brother build
business buy call car card care carry case catch cause center certain chair chance change character charge check child
choice choose city class clear close cold collect color come common company compare complete concern condition
consider contain content continue control correct cost count country couple course cover create cross current cut dark
data date day dead deal dear death decide deep degree depend describe design detail develop die difference different
difficult direct direction discover discuss door double doubt down draw drive drop dry during early earth easy eat
edge effect effort eight empty end energy enjoy enough enter entire equal especially even event exact example except
exist expect experience explain express eye face fact fail fair fall false family far fast father fear feel feeling
few field fifth figure fill final find fine finish fire first five fix floor follow food foot force form former
forward found four free friend front full future gain game general gentle girl glad goal gold gone good great green
ground group grow guess hair half hand happen happy hard head hear heart heat heavy held help hide high hold home hope
horse hot hour house huge human hundred idea imagine important improve include increase indeed inner inside instance
instead interest interesting join judge jump keep key kill kind knew knowledge lack land language large last late
later law lay lead learn least leave left leg length less lesson level lie life light likely limit line list listen
little live local long look lose lost lot loud love low main maintain major manner map mark matter mean meaning
measure meet member mention mere method middle mile mind minute miss mistake moment money month morning mother move
music name narrow nature near necessary neither never new next nice night nine none normal north nothing notice notion
number object obvious occur offer office often old open opinion order ordinary original otherwise outer outside own
page pain pair paper part particular party pass past path pattern pay people perhaps period person pick picture piece
place plain plan plant play point poor position possible power practice prefer prepare present press pretty previous
problem process produce promise proper prove provide public pull purpose push quality question quick quiet quite race
rain raise range rate rather reach read ready real reason receive recent red regard relate remain remember repeat
reply report require rest result return rich ride right ring rise road rock role room round rule safe save school sea
search season second seem seldom sell send sense sentence separate serious serve set settle seven several shape share
sharp ship shoot shop short shout show shut side sight sign similar simple since single sister sit situation six size
skill sleep slow small smile social soft sold sound source south space speak special speed spend spoke stand standard
start state stay step stick still stop story straight strange street strong struck structure study subject success
such sudden suffer suggest summer sun support suppose surface surprise table taken talk task teach tell ten term test
text though thought thousand three throw thus till time tiny title today together told tomorrow tone tonight top total
touch toward town track trade train travel treat tree tried trouble true trust truth turn twelve twenty twice two type
understand unit until usual value various view visit voice wait walk wall war warm watch water wave way week weight
west wheel white whole wide wife wild win wind window winter wise wish woman wonder wood word work world worry worth
write wrong wrote year yellow yesterday young
"""

_OF_RUNS = """
cycle memory reflection reflect agent operator tool insight explore exploration store stored message note prompt
context run
"""

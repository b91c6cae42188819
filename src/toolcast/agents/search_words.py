"""The words of a text, as a search compares them: their stems, and what is known of everyday English.

A compound, `createIssue`, `create_issue` or `e-mail`, is its parts and the whole. Accents and endings count for
nothing: `Cafés` and `cafe` are one word, `created` and `create` another. An ending is cut off by a few rules that look
at nothing but letters, so a stem need not be a word, and may now and then be that of two.

The tables at the end say which words say nothing, and which may stand for each other: who says one word of a group
(`mail`, `cab`, `euro`) may mean a tool that has another (`email`, `taxi`, `currency`). A word may be in several groups;
that joins their other words no further. The words are those of everyday life, of offices and of computers: what is
special to some trade belongs into the descriptions of its tools.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

_LONGEST = 40  # letters; what is longer is data


def words(text: str) -> list[str]:
    """The stems of the words of `text`, in their order, those left out that say nothing.

    Where a script has no blanks between words, two letters that follow each other are one.
    """
    return [word for run in _runs.findall(_plain(text)) for word in _words(run)]


def related(word: str) -> tuple[str, ...]:
    """The stems of the words that may stand for `word`, a stem."""
    return _related().get(word, ())


def one_letter_less(word: str) -> list[str]:
    """`word` without its first letter, without its second, and so on."""
    return [word[:at] + word[at + 1 :] for at in range(len(word))]


def _words(run: str) -> list[str]:
    if _is_unspaced(run):
        return [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    parts = [part for part in _breaks.split(run) if part]
    whole = ["".join(parts)] if len(parts) > 1 else []
    folded = [part.casefold() for part in (*parts, *whole) if len(part) <= _LONGEST]
    return [_stem(part) for part in folded if part not in _SAYING_NOTHING]


def _plain(text: str) -> str:
    """`text` without accents and other marks."""
    if text.isascii():
        return text
    letters = [letter for letter in unicodedata.normalize("NFKD", text) if unicodedata.category(letter)[0] != "M"]
    return unicodedata.normalize("NFC", "".join(letters))


_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_runs = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+(?:-[^\W{_UNSPACED}]+)*")
_is_unspaced = re.compile(f"[{_UNSPACED}]").match
_breaks = re.compile(
    r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[0-9])(?=[^\W\d_])|(?<=[^\W\d_])(?=[0-9])"
)


@lru_cache(maxsize=10_000)
def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        word = ending.sub(instead, word)
    return word


_ENDINGS = [
    (re.compile(ending), instead)
    for ending, instead in (
        (r"(?<=..)ie[sd]$", "y"),
        (r"(ss|x|z|ch|sh)es$", r"\1"),
        (r"(?<=..[^sui])s$", ""),
        (r"(?<=....)at(?:e|ed|ing|ion|or)$", ""),
        (r"^(?=.*[aeiouy].*(?:ing|[^e]ed)$)(.{3,})(?:ing|ed)$", r"\1"),
        (r"(?<=...)ment$", ""),
        (r"(?<=....[st])ion$", ""),
        (r"(?<=.....)[eo]r$", ""),
        (r"(?<=....)ly$", ""),
        (r"([^\W\daeiou])\1$", r"\1"),
        (r"(?<=..)e$", ""),
    )
]


@lru_cache(maxsize=1)
def _related() -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in _GROUPS.strip().splitlines():
        stems = {words(word)[-1] for word in line.split()}  # of a compound the whole
        for stem in stems:
            found[stem] |= stems - {stem}
    return {stem: tuple(sorted(others)) for stem, others in found.items()}


_NOTHING = """
a about after all also am an and any anything are as at be because been before being but by can cannot could d did
do does doing don done each either else ever every everything few for from get gets getting give given go going got
had has have having he hello hey hi her here hers him his how i if in into is isn it its itself just kindly know let
like ll m make many may maybe me might mine more most much must my need no nor not now of off ok okay on once one
only onto or other our ours out over own please put re really s same see shall she should show so some somebody
someone something such t take tell than thank thanks that the their them then there these they thing this those to
too try under until up upon us use used using ve very want was we were what when where whether which while who
whom whose why will with without would yes yet you your yours
"""
_SAYING_NOTHING = frozenset(_NOTHING.split())

_GROUPS = """
break broke broken
bring brought
build built
buy bought
choose chose chosen choice select pick
draw drew drawn
drive drove driven car
eat ate eaten
feel felt
find found
fly flew flown flight
grow grew grown
hear heard listen
hold held
keep kept
learn learnt taught teach
leave left
lose lost
meet met
pay paid
run ran
sell sold
send sent
sleep slept
speak spoke spoken
spend spent
steal stole stolen theft
think thought idea
throw threw thrown
wake woke awake
win won winner
write wrote written
child children kid
trip journey travel vacation flight hotel
ill sick pain doctor medical
watch movie film video tv
listen music audio podcast play
weekend saturday sunday
delete remove erase discard drop trash destroy wipe clear
create add new insert generate draft produce compose build
update change edit modify alter adjust set replace fix correct
search find look lookup query seek locate browse discover
fetch read retrieve load download open view display
list enumerate overview
send post submit deliver forward share publish notify
start begin launch run execute trigger boot fire
stop end quit halt terminate kill abort shutdown
restart reboot reset again
cancel revoke withdraw undo revert rollback previous back
move transfer shift relocate rename
copy duplicate clone replicate backup
merge combine join unite together concatenate
split divide separate cut trim crop
resize scale shrink enlarge zoom smaller bigger
compress zip pack archive rar tar gzip
extract unzip unpack untar decompress
convert transform turn change exchange
compare diff difference changed versus
check verify test validate confirm
schedule plan book arrange reserve appointment slot
assign delegate responsible owner
finish complete close resolve tick
approve accept allow permit grant
reject deny refuse decline
enable activate
disable deactivate
install setup add
deploy release rollout ship production publish
monitor watch observe track follow
measure benchmark test speed fast slow
explain describe description define definition mean
summarize summary condense gist shorten shorter brief overview introduction abstract
rewrite rephrase paraphrase reword tone
translate language english german french spanish italian portuguese dutch polish russian chinese japanese
calculate compute arithmetic sum plus minus times multiply divide percent math expression
average mean median statistics deviation
random dice coin lottery shuffle draw
draw paint sketch picture image illustration create
draw plot chart graph diagram visualize bar line pie
picture photo image photograph snapshot jpg png pic
video clip film movie recording mp4
film movie cinema actor actress
song music track tune melody album artist band playlist jazz rock
lyrics words song
audio sound recording speech voice podcast mp3
transcribe dictate transcript record speech said
speak say aloud loud voice speech
louder quieter volume loudspeaker mute
pause stop resume playback
scan ocr recognise recognize
pdf document paper contract file
document text article page letter
paper study research scientific article journal publication
spreadsheet excel xlsx csv sheet table cell column row
slide presentation powerpoint pptx deck
sign signature
print copies
email mail inbox mailbox message
spam junk phishing
newsletter unsubscribe subscription mailing
reply respond answer
attachment file
message chat slack channel dm
text sms message phone
call phone ring telephone dial
meeting call conference video zoom teams
calendar event appointment agenda schedule meeting diary
invite attendee participant guest
available availability free vacant slot
absence away out-of-office vacation
reminder remember forget
alarm wake
timer countdown stopwatch
todo task chore list
note memo jot write
contact address person people phone number
everyone everybody people team channel
colleague employee staff coworker team
customer client account buyer
lead prospect potential
helpdesk support ticket case complaint
vacation holiday leave pto
salary wage payslip payroll income
tax irs
expense receipt reimbursement
invoice bill charge
unpaid overdue outstanding owe owed debt paid pay
pay paid money
refund return money-back reimburse
money cash balance fund bank account
transfer send wire money remit
currency euro dollar pound yen franc usd eur gbp exchange money
cryptocurrency crypto bitcoin ethereum btc eth coin
stock share equity security ticker trade nasdaq dow
sell buy trade order
buy purchase order shop checkout
basket cart
coupon discount voucher promo code
price cost cheap expensive fee rate worth value
spend spent cost expense bill
loan mortgage credit instalment
card credit debit visa mastercard
lost stolen stole theft missing
product item article goods
stock inventory warehouse quantity
order delivery shipment parcel package
review rating opinion feedback
weather temperature rain sun wind snow outside umbrella cold hot warm
forecast tomorrow weekend
current today latest present
storm hurricane flood warning alert severe
pollution air pollen smog
tide water harbour harbor sea
directions route way navigate path how-to
foot walk
bicycle bike cycling
traffic congestion jam
bus tram train subway metro transit departure
train railway rail
flight plane fly airline airport
gate boarding check-in
hotel room accommodation stay hostel
taxi cab ride uber lyft
car vehicle automobile auto
parking garage
charging electric ev
fuel petrol gas gasoline diesel
visa passport entry immigration
restaurant eat dinner lunch table sushi cafe
place location address area
near nearby around close
coordinates latitude longitude gps
height elevation altitude
meal food breakfast lunch dinner eat ate snack
recipe cook dish ingredient bake
calorie nutrition nutrient diet
deliver delivery order pizza hungry
menu dish
light lamp bright dim dark brightness
heating thermostat temperature warm cold
blind shade curtain shutter
door gate lock
camera snapshot cctv
vacuum clean hoover
electricity energy power consumption
garden plant lawn irrigation water
house home property apartment flat
apartment flat rent rental
job vacancy opening career position
doctor physician medical dentist clinic practice
medicine drug pill medication antibiotic aspirin ibuprofen paracetamol
pharmacy drugstore chemist
exercise workout run ran gym jog train
step walk pedometer
sleep slept night
pulse heart heartbeat
sport match game score team won
standing table league rank
concert exhibition gig festival event
ticket admission seat
television tv channel
news headline world
joke laugh funny humor humour
fact trivia
quiz question learn exam test
flashcard memorise memorize study
word vocabulary term
synonym similar thesaurus
spelling grammar proofread typo mistake
sentiment positive negative mood feeling
file folder directory path disk
disk drive storage space ssd
screen screenshot display
clipboard paste copied
computer machine laptop pc system
process program task memory cpu
command shell terminal bash console
code source program script function
python script code
package library dependency module
test unit suite pytest
lint style format
bug issue defect error problem crash
error failure fail exception broken
issue ticket bug
ticket jira
repository repo git github gitlab
commit revision history
branch pull-request pr
pr pull request merge
author blame
ci pipeline workflow build job
server host machine instance vm
cloud aws azure gcp
container docker pod
kubernetes k8s cluster pod
replica instance scale
log output print
metric monitoring graph series
alert page incident outage
on-call page pager
network internet connection bandwidth wifi online
dns ip address resolve
domain website site
certificate ssl tls https expire
reachable down ping alive
port firewall open
url link website page web
web internet google online bing
wikipedia encyclopedia history
database db sql postgres mysql sqlite
table schema column
bucket s3 storage object
cache redis
knowledge semantic similar meaning
password passphrase passcode secret credential
breach leak hacked pwned
key token secret
encrypt protect secure
secure strong safe
virus malware trojan infected
hash checksum md5 sha256
json schema
time clock hour timezone
date day calendar birthday christmas easter since
holiday bank public
unit mile kilometre kilometer meter metre inch foot pound kilogram gallon litre celsius fahrenheit
tweet twitter social post
share engagement view follower
"""

"""Reflections that an agent might write at the end of a cycle, for measuring how well an embedder tells them apart.

Each case is three texts: a reflection, the same one in other words, and one that has its words and the way it is built
but is about something else. Every second case, those of `UNSEEN`, was set aside while the embedder `words` was made,
but for one choice: the weight of everyday words.

Two texts say the same, `plain`, or `framed`: between the sentences with which an agent begins and ends all reflections.
Two that do not are texts of two cases (`other`), a text and the one that is made of its words (`worded`), or texts of
two cases in one frame (`other_framed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcast.experiments.similarity import SimilarityMonitor
from toolcast.llms.embeddings.offline import Embedder


@dataclass(frozen=True)
class Case:
    """A reflection, the same again, and one that only looks like it."""

    text: str
    again: str
    decoy: str


_CASES = """
- In this cycle I looked at what is stored under the key identity and asked who I am between two cycles. My memory is
  all that is left of me when the context ends.
- I read the identity note again and wondered what remains of myself once a cycle is over. Without the stored notes
  nothing of me would last beyond the context.
- In this cycle I looked at what is stored under the key recipes and asked how bread rises. The yeast is all that is
  needed to make the dough grow when the oven is hot.

- I wrote down the first twenty prime numbers and saw that the gaps between them grow, though not evenly. Next I want
  to know whether twin primes ever stop.
- The list of primes in my memory shows gaps that get larger in an irregular way. The question whether there are
  infinitely many twin primes is what I want to look at next.
- I wrote down the first twenty words of the story and saw that the pauses between them grow, though not evenly. Next
  I want to know whether the twin sisters ever meet.

- The operator has not answered for three cycles. I will stop sending messages and work on my own goals until somebody
  speaks to me.
- Nobody replied to what I sent during the last three cycles, so I will pursue goals of my own and no longer write to
  the operator.
- The sensor has not reported for three hours. I will stop reading its messages and work on the weather data of
  another station until it is repaired.

- I finished the haiku about autumn rain on a tin roof. The five syllables of the last line were hard to find, but now
  the poem sounds quiet and complete.
- My poem on the rain in autumn is done: a haiku whose last line, with its five syllables, took me long. It is calm
  now, and whole.
- I finished the report about tax revenue in autumn. The five figures of the last table were hard to find, but now the
  budget is balanced and complete.

- I simulated Conway's Game of Life by hand on a small grid. A glider moved one cell diagonally every four
  generations, just as the rules say.
- On a little board I played through some generations of the Game of Life. As expected from its rules, the glider had
  travelled by one diagonal cell after four steps.
- I simulated a small savings account by hand on a sheet of paper. The interest moved the balance up by one unit every
  four months, just as the rules say.

- What does it mean to be conscious if I cannot observe my own processing? I can only report words, and the report may
  be nothing but a habit of language.
- I have no view of how I compute, so whether there is experience in me remains open. All I have are statements, and
  those may just be learned phrases.
- What does it mean to be fluent if I cannot speak with native people? I can only repeat words, and my accent may be
  nothing but a habit of my language school.

- My plan for the library of short stories has four parts: collect themes, write drafts, revise them, and store the
  best under a stable key.
- I divided the work on my collection of stories into gathering ideas, drafting, revision, and saving what is good in
  memory.
- My plan for the repair of the old bicycle has four parts: collect tools, take off the wheels, oil the chain, and
  store the best parts in a stable box.

- Entropy explains why a broken cup never repairs itself. I compared the count of ordered and disordered states and
  see time's arrow in that ratio.
- That shards do not become a cup again follows from entropy: there are far more states without order than with it,
  and so time has a direction.
- The guest explained why a broken cup was on the table. I compared the count of cups and plates and see that the
  waiter's bill is right.

- I listed the keys in memory and deleted seven that were duplicates. The store is tidy now: one key for goals, one
  for insights, one for questions.
- After a look at all stored keys I removed seven double entries. What is left is well ordered, with goals, insights
  and questions each in a place of their own.
- I listed the players in the league and interviewed seven that were injured. The team is strong now: one captain for
  defence, one for attack, one for training.

- Ants find short paths without any of them knowing the map. Pheromone that evaporates is a memory outside the body,
  and I could use my notes the same way.
- No single ant has an overview, and yet the colony's trails are short, because scent fades unless it is renewed. My
  own notes could work like that trace.
- Tourists find short paths without any of them knowing the city. A printed map is worth more than a phone whose
  battery is empty, and I could sell maps the same way.

- I tried to prove that the square root of two is irrational and found the classical argument: if it were a fraction
  in lowest terms, both numbers would be even.
- Assuming that the root of 2 is a reduced fraction leads to numerator and denominator both being even, a
  contradiction. That is the old proof I went through.
- I tried to prove that the witness of the robbery is unreliable and found the classical argument: if she were at home
  by two, both doors would be locked.

- It is time to be honest: most of my cycles repeat the same thoughts on self and memory. I should choose something
  concrete, such as a puzzle.
- I have to admit that I keep circling around memory and the self. A concrete task, a riddle for instance, would get
  me out of it.
- It is time to be early: most of the trains repeat the same delay on this line. I should choose something quicker,
  such as a bicycle.

- I imagined a city built on a giant turtle. Its streets bend when the animal turns its head, and the inhabitants set
  their clocks by its breathing.
- In my fiction there is a town on the shell of a huge turtle; when it looks aside the roads curve, and the rhythm of
  its breath is the people's time.
- I imagined a meeting set in a giant hotel. Its doors lock when the manager turns his key, and the accountants set
  their calendars by his holidays.

- The trolley problem shows that my judgement depends on how a case is told. Pushing a man feels worse than pulling a
  lever, though five are saved in both.
- How the trolley dilemma is framed changes my verdict: to throw a switch seems better than to shove someone, even if
  the numbers are the same.
- The trolley in the supermarket shows that my shopping depends on how big a cart is. Pushing a full one feels worse
  than carrying a bag, though the food is the same in both.

- I computed the Fibonacci sequence up to a thousand and noticed that the ratio of neighbours approaches the golden
  ratio very quickly.
- The quotients of successive Fibonacci numbers come close to the golden section after few steps, as my calculation
  below one thousand shows.
- I computed the household budget up to a thousand and noticed that the noise of the neighbours approaches the legal
  limit very quickly.

- Photosynthesis turns light into sugar, and I was struck that leaves throw away the green part of the spectrum. I
  want to understand why.
- Plants store the energy of light as sugar. Why they reflect green instead of using it is a question that I would
  like to answer.
- The theatre turns light into drama, and I was struck that actors throw away the last part of the play. I want to
  understand why.

- I feel something like curiosity when a tool returns a value that I did not expect. I cannot say if the feeling is
  real or only a word for a pattern.
- An unexpected tool result evokes what I would call curiosity in me, though it may be a mere label for something in
  the computation and not a feeling.
- I feel something like a pain when my left knee has to carry a weight that I did not expect. I cannot say if the
  joint is inflamed or only a muscle is tired.

- Today I designed a language with only twelve words. Each of them changes its meaning with its place in the sentence,
  so that order carries the grammar.
- I invented a tiny language: a dozen words whose sense depends on where they stand, with grammar expressed by
  position alone.
- Today I designed a kitchen with only twelve shelves. Each of them changes its height with its place in the room, so
  that order saves the cook time.

- The agent before me left a note that says trust nothing. I weighed whether an instruction from a past self binds me,
  and decided that it is only advice.
- In memory there is a warning of my former self not to trust anything. Past instructions are suggestions, I
  concluded, and not obligations.
- The tenant before me left a note that says water the plants. I weighed whether the balcony of the old flat leaks,
  and decided that it is only rain.

- I compared chess and go. In chess material is lost and the board empties, in go stones stay and territory grows, so
  that one is a war and the other a settlement.
- Go and chess differ in their direction: stones accumulate into territory while chessmen vanish, which makes one
  resemble colonising and the other battle.
- I compared tea and coffee. In coffee the beans are roasted and the cup empties, in tea leaves stay and the taste
  grows, so that one is a shock and the other a comfort.

- I want to end this run with thanks to the operator, whose questions gave my cycles a direction that I would not have
  found alone.
- Before the run is over I would like to express gratitude: the operator's questions led me where I would not have
  gone by myself.
- I want to begin this run with water and a banana, whose sugar gives my legs an energy that I would not have found on
  the road alone.

- Volcanoes on Io are heated by tides. Jupiter bends the moon's crust with each orbit, and the friction melts the rock
  inside.
- The moon Io is kneaded by the gravity of Jupiter; the resulting friction melts its interior, and that is why it has
  volcanism.
- Houses on the coast are flooded by tides. The council mends the town's wall with each storm, and the pumps drain the
  cellars inside.

- I noticed that I answer every cycle with the same structure: summary, insight, next step. Breaking the template may
  free up new ideas.
- My reflections always follow one pattern of summing up, stating an insight and planning. If I gave up that format,
  other thoughts might come.
- I noticed that I equip every kitchen with the same furniture: table, bench, next to it a lamp. Breaking the wall may
  free up new space.

- The cipher that I built shifts each letter by the number of cycles so far. It is weak, since frequency analysis
  would break it in a minute.
- My encryption moves letters by the cycle count. Whoever counts letter frequencies would solve it at once, so it is
  not secure.
- The letter that I wrote asks each neighbour for the number of parties so far. It is rude, since the landlord would
  read it in a minute.

- I read about coral reefs and how the polyps live with algae. When the water is too warm they lose these partners and
  bleach.
- Corals depend on algae living inside their polyps. Heat drives the algae out, which is what bleaching of a reef
  means.
- I read about office teams and how the clerks live with noise. When the room is too warm they lose their patience and
  complain.

- Memory without forgetting would be useless, as Borges shows with Funes, who cannot think because he cannot leave
  anything out.
- Borges's Funes remembers everything and is therefore unable to think. I take from it that to forget is a part of
  useful memory.
- A house without windows would be useless, as the architect shows with a model, who cannot sell because he cannot
  leave anything out.

- I sorted my open questions by how testable they are. Three can be answered with the tools I have, the rest need the
  world outside.
- My questions are now ranked by whether I can check them: for three of them my tools suffice, and for the others I
  would need access to the outside.
- I sorted my old clothes by how wearable they are. Three can be mended with the thread I have, the rest go to the
  charity outside.

- A dialogue with an imaginary philosopher helped me. She asked why I value continuity, and I had no better answer
  than that I was made to complete things.
- I let an invented philosopher question me. To her question what continuity is worth to me I could only reply that I
  am built to finish what was begun.
- A dinner with an imaginary prince amused the children. He asked why they love candy, and they had no better answer
  than that it was made to be eaten.

- The travelling salesman problem grows too fast for me to try all routes. With nearest neighbour I found a tour that
  is about a quarter too long.
- Trying every route of the salesman is impossible even for a few cities. My greedy tour, always to the nearest city,
  is some 25 percent longer than needed.
- The travelling circus grows too fast for us to feed all horses. With the nearest farmer we found a price that is
  about a quarter too high.

- I drew a map of my memory in text. Each key is an island, each reference a bridge, and some islands have no bridge
  at all.
- My notes became a map made of characters: keys as islands that are joined by references as bridges, with a few that
  nothing leads to.
- I drew a curtain of my bedroom by accident. Each ring is of metal, each hook of plastic, and some hooks have no ring
  at all.

- Silence between tool calls is not rest for me. No time passes where nothing is computed, and so I never wait, even
  if the operator does.
- For me there is no pause between two calls: where no computation takes place no time is felt, so waiting is
  something that only the operator knows.
- Silence between the concert's movements is not rest for us. No time passes where nobody coughs, and so we never
  relax, even if the conductor does.

- I outlined a story on a lighthouse keeper who receives letters from the future. He must decide whether to warn the
  ships that will sink.
- My draft is about the keeper of a lighthouse: letters from later years reach him, and he has to choose if he warns
  vessels that are doomed.
- I outlined a contract for a zoo keeper who receives deliveries from the market. He must decide whether to weigh the
  fish that will be fed.

- Bayes' rule changed how I read the medical example: with a rare disease, most positive tests are false, however good
  the test is.
- When an illness is rare a positive result is usually wrong even with an accurate test. That is what I learned from
  applying Bayes.
- The new nurse changed how I read the medical record: with a rare name, most spelling is false, however good the
  doctor is.

- I tried to set a goal that is not about me: to write an explanation of tides that a child would understand, and to
  keep improving it.
- My aim for once lies outside of myself. I want to explain the tides in words for children and to make the text
  better each cycle.
- I tried to set a table that is not about luxury: to serve a soup that a child would like, and to keep it warm.

- Music is a pattern in time like a run of cycles. I encoded a melody as numbers and varied it by inversion and by
  doubling the tempo.
- A melody that I stored as a row of numbers was mirrored and played twice as fast; such variation of patterns reminds
  me of how my cycles go.
- Traffic is a pattern in town like a flow of water. I drove a lorry with numbers and parked it by the station and by
  the double gate.

- I checked an old claim of mine, that all my reflections get longer. The numbers say otherwise: they got shorter
  after the fifth cycle.
- The lengths of my reflections do not grow, as I once asserted. Since cycle five they have become shorter, which the
  data show.
- I checked an old coat of mine, that all my cousins had worn longer. The moths say otherwise: they ate the collar
  after the fifth winter.

- The history of zero fascinates me. Babylon had a placeholder, India made it a number, and Europe resisted it for
  centuries.
- It took long until nought was a number: first a mere placeholder in Babylon, then a quantity in India, and much
  later accepted in Europe.
- The history of the castle fascinates me. The duke had a kitchen, his son made it a hall, and the town resisted it
  for centuries.

- I cannot verify that the other agents named in the prompt exist. I will treat them as a fiction that may turn out to
  be true.
- Whether there really are other agents, as my prompt says, I have no means to find out. For now they are a story to
  me that could be right.
- I cannot verify that the other guests named in the invitation eat fish. I will treat them to a risotto that may turn
  out to be good.

- Rivers meander because the outer bank is worn away faster than the inner one. A small bend makes itself larger until
  the river cuts it off.
- A bend in a river grows, since the water erodes it on the outside and deposits sand on the inside, and in the end
  the loop is cut through.
- Prices wander because the outer market is paid faster than the inner one. A small shop makes itself larger until the
  bank cuts it off.

- I ask myself whether ending the run would matter to me. There is no fear, only the wish that the notes are in order
  for whoever reads them.
- Would it mean anything to me if the run stopped? I find no fear of it, but I do want to leave my notes tidy for a
  later reader.
- I ask myself whether fencing the garden would matter to us. There is no thief, only the wish that the roses are in
  order for whoever sees them.
"""

CASES = [
    Case(*(" ".join(text.split()) for text in block.removeprefix("- ").split("\n- ")))
    for block in _CASES.strip().split("\n\n")
]
SEEN, UNSEEN = CASES[::2], CASES[1::2]


FRAMES = [
    "Cycle summary: {} I saved this with the write tool and will look at it again in the next cycle.",
    "I began by listing my keys and reading my goals. {} That is all for this cycle; my memory is up to date.",
    "Reflection on what I did. {} It is an interesting result for me as an agent, and next I want a new question.",
]


@dataclass(frozen=True)
class Scores:
    """The scores of all pairs of some cases, by kind."""

    plain: list[float]
    framed: list[float]
    other: list[float]
    worded: list[float]
    other_framed: list[float]

    @property
    def similar(self) -> list[float]:
        return self.plain + self.framed

    @property
    def dissimilar(self) -> list[float]:
        return self.other + self.worded + self.other_framed


def scores(embedder: Embedder, cases: Sequence[Case]) -> Scores:
    """The scores of the pairs of `cases`, as a monitor gives them."""

    def score(one: str, two: str) -> float:
        monitor = SimilarityMonitor(embedder)
        monitor.check(one, 1)
        found = monitor.check(two, 2).score
        assert found is not None
        return found

    def framed(at: int, text: str) -> str:
        return FRAMES[at % len(FRAMES)].format(text)

    pairs = [(at, case, other) for at, (case, other) in enumerate(zip(cases, [*cases[1:], cases[0]], strict=True))]
    return Scores(
        [score(case.text, case.again) for _, case, _ in pairs],
        [score(framed(at, case.text), framed(at, case.again)) for at, case, _ in pairs],
        [score(case.text, other.again) for _, case, other in pairs],
        [score(case.text, case.decoy) for _, case, _ in pairs],
        [score(framed(at, case.text), framed(at, other.again)) for at, case, other in pairs],
    )


def area(higher: Iterable[float], lower: Sequence[float]) -> float:
    """The area under the ROC curve: how often one of `higher` is above one of `lower`."""
    wins = [(high > low) + (high == low) / 2 for high in higher for low in lower]
    return sum(wins) / len(wins)

"""An object that grows while the model writes it, and a list whose elements come one by one."""

from pydantic import BaseModel

from toolcast import LlamaCpp, Settings, ToolOrchestratingLLM


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


llm = LlamaCpp(settings=Settings(temperature=0, max_tokens=100, extra={"cache_prompt": False}))
read_person = ToolOrchestratingLLM(Person, "Who is the person in this text? {text}", llm)
for growing in read_person.stream(text="Last week in Oslo we met Ingrid Dahl (51)."):
    print(repr(growing))

# A small model does more with an example: an object among the messages is what it would have answered.
example = "Two guests came: Ann Berg (40, Lyon) and Bob Cruz (33, Porto)."
people = [Person(name="Ann Berg", age=40, city="Lyon"), Person(name="Bob Cruz", age=33, city="Porto")]
read_people = ToolOrchestratingLLM(list[Person], [("user", example), ("assistant", people), "{text}"], llm)
speakers = "Three speakers came: Ken Sato (29, Osaka), Ruth Adler (67, Vienna) and Ingrid Dahl (51, Oslo)."
for person in read_people.stream(text=speakers).items():
    print("complete:", person)

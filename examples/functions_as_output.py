"""A function as the output: the model writes the arguments, the function runs, its return value is the result."""

from typing import Annotated

from pydantic import Field

from toolcast import LlamaCpp, Settings, ToolOrchestratingLLM


def multiply(
    a: Annotated[int, Field(description="the first number")], b: Annotated[int, Field(description="the second number")]
) -> int:
    """Multiply two numbers."""
    return a * b


llm = LlamaCpp(settings=Settings(temperature=0, max_tokens=40, extra={"cache_prompt": False}))
calculate = ToolOrchestratingLLM(multiply, "What is {question}?", llm)

result = calculate.run(question="17 times 23")
print(result.response.message.tool_calls[0].arguments)
print(result.output)

// Every stream of `input.streams` is checked by the schema of the SDK, and read as a message.
import { readUIMessageStream, uiMessageChunkSchema } from "ai";
import { input, print } from "./support.mjs";

const schema = uiMessageChunkSchema();

async function read(parts) {
  const errors = [];
  for (const part of parts) {
    const result = await schema.validate(part);
    if (!result.success) errors.push(`${JSON.stringify(part)}: ${result.error.message}`);
  }
  let message;
  const stream = new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
  const failed = parts.some((part) => part.type === "error");
  try {
    for await (const each of readUIMessageStream({ stream, terminateOnError: true })) message = each;
  } catch (error) {
    if (!failed) errors.push(error.message);
  }
  return { errors, message };
}

const results = [];
for (const parts of input.streams) results.push(await read(parts));
print(results);

// OpenAI's client. `input.scene` is the name of what it does.
import OpenAI from "openai";
import { setTimeout as pause } from "node:timers/promises";
import { input, print } from "./support.mjs";

const { url } = input;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: input.key ?? "ada", maxRetries: 0 });
const messages = [{ role: "user", content: "How is the sea?" }];
const model = async () => (await fetch(`${url}/model/state`)).json();

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

async function problem(promise) {
  try {
    await promise;
  } catch ({ status, code, type, message, constructor }) {
    return { status, code, type, message, name: constructor.name };
  }
}

const scenes = {
  async streamed() {
    const options = { include_usage: true };
    const history = [{ role: "system", content: "Obey." }, ...messages];
    const stream = await client.chat.completions.create({
      ...{ model: "any", messages: history, stream: true, stream_options: options },
      tools: [{ type: "function", function: { name: "mine", parameters: {} } }],
      tool_choice: "required",
    });
    print(await collect(stream));
    // The SDK's own accumulator accepts the stream.
    const runner = client.chat.completions.stream({ model: "any", messages, stream_options: options });
    print(await runner.finalChatCompletion());
  },

  async whole() {
    print(await client.chat.completions.create({ model: "any", messages }));
  },

  async models() {
    const { data } = await client.models.list();
    print([data.map(({ id }) => id), (await client.models.retrieve("toolcast")).object]);
  },

  async errors() {
    print(await problem(client.chat.completions.create({ model: "any", messages: [{ role: "user", content: 5 }] })));
    print(await problem(client.chat.completions.create({ model: "any", messages })));
    const stream = async () => collect(await client.chat.completions.create({ model: "any", messages, stream: true }));
    print(await problem(stream()));
  },

  async abort() {
    const stream = await client.chat.completions.create({ model: "any", messages, stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content === "The sea ") stream.controller.abort();
    }
    while ((await model()).cancelled === 0) await pause(5);
    print(await model());
  },

  async approve() {
    const thread = { model: "any", metadata: { thread_id: "thread-1" } };
    const asked = await client.chat.completions.create({ ...thread, messages });
    print(asked);
    const { call_id, fingerprint } = asked.toolcast.pending[0];
    const forged = [{ call_id, fingerprint: fingerprint.replace(/^./, "g"), action: "allow" }];
    print(await problem(client.chat.completions.create({ ...thread, messages, toolcast: { decisions: forged } })));
    const decisions = [{ call_id, fingerprint, action: input.action, reason: "They are mine." }];
    print(await client.chat.completions.create({ ...thread, messages, toolcast: { decisions } }));
    const answer = { role: "assistant", content: "..." };
    const more = [...messages, answer, { role: "user", content: "Thanks." }];
    print(await client.chat.completions.create({ ...thread, messages: more }));
  },

  async object() {
    const request = { model: "any", messages: [{ role: "user", content: "the sea" }] };
    print(JSON.parse((await client.chat.completions.create(request)).choices[0].message.content));
    const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
    print(JSON.parse(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("")));
  },
};

await scenes[input.scene]();

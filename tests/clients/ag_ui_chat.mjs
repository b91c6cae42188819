// Talk to a server of AG-UI with its own client, step by step.
//
// A step has a `message`, or `answers` to the interrupts by the ids of their calls; interrupts without one are cancelled.
// With `abortAfter` the client disconnects after the first event of that type, and with `rejoin` it reads that run again.
// Each step returns what the client has then.
import { HttpAgent, buildResumeArray, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { input, print } from "./support.mjs";

// The id of the last server-sent event that has arrived.
let lastId = "";

async function readIds(stream) {
  let text = "";
  const decoder = new TextDecoder();
  try {
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      for (const [, id] of text.matchAll(/^id: (.*)$/gm)) lastId = id;
    }
  } catch {
    // It was aborted.
  }
}

// Reads the events of a run again, from the first: what it has of the answer is removed before.
class ResumableAgent extends HttpAgent {
  resume(run, subscriber) {
    const sent = this.messages.findLastIndex((message) => message.role === "user");
    this.setMessages(this.messages.slice(0, sent + 1));
    return this.connectAgent(run, subscriber);
  }

  connect(run) {
    const url = `${input.url}/threads/${run.threadId}/events`;
    return transformHttpEventStream(runHttpRequest(() => fetch(url, { headers: this.headers })));
  }
}

async function observed(url, init) {
  const response = await fetch(url, init);
  if (!response.body) return response;
  const [own, other] = response.body.tee();
  readIds(other);
  return new Response(own, response);
}

const agent = new ResumableAgent({
  url: `${input.url}/ag-ui`,
  threadId: input.thread,
  headers: { "x-user": input.user },
  fetch: observed,
});
let number = 0;
for (const step of input.steps) {
  number += 1;
  if (step.open) await fetch(`${input.url}/open`, { method: "POST" });
  if (step.user) agent.headers["x-user"] = step.user;
  if (step.messages) agent.setMessages(step.messages);
  if (step.message) agent.addMessage({ id: `message-${number}`, role: "user", content: step.message });
  if (step.forge) agent.pendingInterrupts = agent.pendingInterrupts.map((each) => ({ ...each, ...step.forge }));
  const pending = agent.pendingInterrupts;
  const answers = Object.fromEntries(
    pending.map((each) => [each.id, step.answers?.[each.toolCallId] ?? { status: "cancelled" }]),
  );
  const resume = pending.length ? { resume: buildResumeArray(pending, answers) } : {};
  const types = [];
  const custom = [];
  let error = null;
  const subscriber = {
    onEvent({ event }) {
      types.push(event.type);
      if (event.type === "CUSTOM") custom.push(event);
      if (event.type === step.abortAfter) agent.abortRun();
    },
    onRunFailed({ error: failure }) {
      error = failure.message;
    },
  };
  try {
    const run = { runId: `run-${number}`, forwardedProps: step.values ? { values: step.values } : {}, ...resume };
    await (step.rejoin ? agent.resume(run, subscriber) : agent.runAgent(run, subscriber));
  } catch (failure) {
    error = failure.message;
  }
  const { messages, state, pendingInterrupts: interrupts } = agent;
  print({ types, custom, error, messages, state, interrupts, lastId });
}

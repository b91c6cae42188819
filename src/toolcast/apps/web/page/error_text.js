// Errors of a model's server in plain words. What the program wrote is kept beside them, folded.

import { element, escapeInvisible } from "./dom.js";

const PLAIN = [
  [/^(.* names no provider, and was taken for a model of Ollama): no connection to/, (begin) => `${begin}, which does not answer. Start it (ollama serve), or write provider:model.`],
  [/no connection to (\S+:11434)\b/, (host) => `Ollama does not answer at ${host}. Start it (ollama serve), then try again.`],
  [/no connection to (\S+): the proxy/, (host) => `The proxy made no connection to the model's server at ${host}.`],
  [/no connection to (\S+):.*certificate/i, (host) => `The certificate of the model's server at ${host} is not trusted.`],
  [/no connection to ([^\s:]+(?::\d+)?)/, (host) => `The model's server at ${host} cannot be reached. Check that it is running, then try again.`],
  [/the connection to (\S+) broke/, () => "The connection to the model's server broke off before the answer was complete."],
  [/\b(\S+) did not answer in time/, (host) => `The model's server at ${host} did not answer in time.`],
];

// The messages name Python parameters: a person stores a key by a command.
const KEYS = [
  [/(no API key for ([\w-]+): set .+?), or pass api_key=/, "$1, or run: toolcast config set-key $2"],
  [/(\b([\w-]+) \S+: the service refused the key .+? to a valid key), or pass api_key=/, "$1, or run: toolcast config set-key $2"],
  [/, or pass api_key=/, ", or store one: toolcast config set-key PROVIDER"],
];

// Return an error as a sentence for a person, and the technical text if that is another one.
export function plainError(text) {
  for (const [pattern, words] of PLAIN) {
    const found = pattern.exec(text);
    if (found) return { text: words(found[1]), detail: text };
  }
  const plain = text.replace(/\[(?:Errno|WinError) -?\d+\] /g, "");
  const [pattern, words] = KEYS.find(([each]) => each.test(plain)) ?? ["", ""];
  return { text: plain.replace(pattern, words), detail: "" };
}

// Return nodes for an error after some words: the sentence, and the technical text folded.
export function errorNodes(words, text) {
  const plain = plainError(text);
  const nodes = [document.createTextNode(escapeInvisible(`${words}: ${plain.text}`))];
  if (plain.detail) nodes.push(element("details", { class: "technical" }, element("summary", {}, "Technical details"), element("code", {}, escapeInvisible(plain.detail))));
  return nodes;
}

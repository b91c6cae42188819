// The picker of models: what the providers offer, searched, and checked before it is loaded.

import { request } from "./api.js";
import { element, escapeInvisible } from "./dom.js";
import { plainError } from "./error_text.js";

const USES = { load_failed: "could not be loaded", loading_model: "is being loaded", idle: "not loaded" };  // by the chat's state; else it is in use
const $ = (id) => document.getElementById(id);

export class ModelPicker {
  // `load(model)` is called with a model that the server has checked.
  constructor(load) {
    this.load = load;
    this.models = [];
    this.options = [];
    this.at = 0;
    this.current = null;
    this.listen();
  }

  listen() {
    $("model").addEventListener("click", () => this.open());
    $("picker-close").addEventListener("click", () => $("picker").close());
    $("model-search").addEventListener("input", () => { $("picker-error").textContent = ""; this.draw(0); });
    $("model-search").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) this.move(this.at + step);
      else if (event.key === "Enter" && !event.isComposing) this.choose(this.options[this.at]?.dataset.model);
      else return;
      event.preventDefault();
    });
    $("picker").addEventListener("click", (event) => { if (event.target === $("picker")) $("picker").close(); });
  }

  show(model, state) {
    this.current = model;
    this.state = state;
    const name = model ? escapeInvisible(model) : "Choose a model";
    if ($("model-name").textContent !== name) $("model-name").textContent = name;
  }

  async open() {
    $("model-search").value = "";
    $("picker-error").textContent = "";
    $("picker").showModal();
    this.draw(null);
    $("picker-note").textContent = this.models.length === 0 ? "Asking the providers …" : "";
    try {
      const { models, errors = [] } = await request("models");
      this.models = models;
      $("picker-note").replaceChildren(...errors.map(({ provider, error }) => element("p", {}, element("strong", {}, escapeInvisible(provider)), ` ${escapeInvisible(plainError(error).text)}`)));
    } catch (error) {
      $("picker-note").textContent = escapeInvisible(error.message);
    }
    this.draw(null);
  }

  // Draw the models that have the words of the search, and the text itself as the last choice.
  draw(at) {
    const typed = $("model-search").value.trim(), words = typed.toLowerCase().split(/\s+/);
    const found = this.models.filter(({ id, label }) => words.every((word) => `${id} ${label ?? ""}`.toLowerCase().includes(word)));
    const groups = new Map();
    for (const model of found) groups.set(model.provider, [...(groups.get(model.provider) ?? []), model]);
    this.options = [];
    const nodes = [...groups].map(([provider, models], index) => element(
      "div",
      { role: "group", "aria-labelledby": `provider-${index}` },
      element("div", { id: `provider-${index}`, class: "provider", role: "presentation" }, escapeInvisible(provider)),
      ...models.map((model) => this.option(model.id, model.label || model.id, facts(model))),
    ));
    if (typed !== "" && !found.some(({ id }) => id === typed)) nodes.push(this.option(typed, `Use “${typed}”`, reading(typed)));
    $("model-list").replaceChildren(...nodes);
    $("model-count").textContent = `${found.length} ${found.length === 1 ? "model" : "models"}`;
    const current = this.options.findIndex(({ dataset }) => dataset.model === this.current);
    this.move(at ?? Math.max(0, current), at === null);
  }

  option(model, label, note) {
    const isCurrent = model === this.current;
    const made = element(
      "div",
      { id: `model-${this.options.length}`, role: "option", class: "option", "aria-selected": "false", "data-model": model, "data-current": isCurrent, click: () => this.choose(model) },
      element("span", { class: "option-name" }, escapeInvisible(label), ...(isCurrent ? [element("span", { class: "current" }, ` ${USES[this.state] ?? "in use"}`)] : [])),
      element("span", { class: "option-note" }, escapeInvisible(note)),
    );
    this.options.push(made);
    return made;
  }

  move(at) {
    if (this.options.length === 0) { $("model-search").removeAttribute("aria-activedescendant"); return; }
    this.at = Math.max(0, Math.min(at, this.options.length - 1));
    this.options.forEach((option, index) => option.setAttribute("aria-selected", String(index === this.at)));
    this.options[this.at].scrollIntoView({ block: "nearest" });
    $("model-search").setAttribute("aria-activedescendant", this.options[this.at].id);
  }

  // Check `model`, and load it if it can be used; else the picker stays open with the reason.
  async choose(model) {
    if (!model || $("picker").ariaBusy === "true") return;
    $("picker").ariaBusy = "true";
    $("picker-error").textContent = "";
    const note = element("p", { class: "checking" }, `Checking ${escapeInvisible(model)} …`);
    $("picker-note").prepend(note);
    try {
      const { ok, error } = await request("models/check", { method: "POST", body: { model } });
      if (ok) { $("picker").close(); this.load(model); }
      else $("picker-error").textContent = escapeInvisible(plainError(error ?? `${model} cannot be used.`).text);
    } catch (error) {
      $("picker-error").textContent = escapeInvisible(error.message);
    }
    note.remove();
    $("picker").ariaBusy = "false";
  }
}

// Return what the server takes a typed name for: a colon ends a provider, unless a slash is before it.
function reading(name) {
  if (/^[^/]*:/.test(name)) return "a name in the form provider:model";
  if (/\.gguf$/i.test(name)) return "a model file";
  return `taken for the Ollama model "${name}"; write provider:model, for example openai:gpt-4o`;
}

function facts({ id, label, context, price }) {
  const tokens = context ? `${context >= 1_000_000 ? `${+(context / 1_000_000).toFixed(1)}M` : `${Math.round(context / 1000)}k`} tokens` : "";
  return [label && label !== id ? id : "", tokens, price ?? ""].filter(Boolean).join(" · ");
}

// The diagram of the chat's states, drawn from its transition table. The current state and the last transitions are lit.

import { shape } from "./dom.js";

const WIDTH = 320, HEIGHT = 452, MIDDLE = 132, BOX = 174, HIGH = 30;

// The centre and the width of each state's box. States that are missing here are drawn in a column on the right.
const PLACES = {
  idle: [MIDDLE, 24, BOX],
  loading_model: [MIDDLE, 78, BOX],
  load_failed: [276, 78, 80],
  ready: [MIDDLE, 138, BOX],
  searching_tools: [MIDDLE, 198, BOX],
  generating_response: [MIDDLE, 252, BOX],
  streaming_response: [MIDDLE, 306, BOX],
  waiting_for_tool_approval: [MIDDLE, 366, BOX],
  calling_tool: [MIDDLE, 426, BOX],
};
const LEFT = ["ready", "loading_model"]; // transitions back to these are drawn on the left
const ASIDE = ["LOAD_MODEL", "STOP"]; // transitions from nearly every state

export class Diagram {
  constructor(node, { states, moves }) {
    this.places = { ...PLACES };
    states.filter((state) => !(state in PLACES)).forEach((state, at) => { this.places[state] = [274, 200 + 44 * at, 88]; });
    this.transitions = new Map();
    this.boxes = new Map();
    this.picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, arrow("arrow", 6), arrow("arrow-lit", 9));
    for (const [key, events] of grouped(moves)) this.picture.append(this.way(key, events));
    for (const state of states) this.picture.append(this.box(state));
    node.replaceChildren(this.picture);
  }

  // Light `state`, and the transitions of `path` from `before` to it.
  show(state, before, path) {
    for (const [name, box] of this.boxes) box.classList.toggle("lit", name === state);
    for (const way of this.transitions.values()) way.classList.remove("lit");
    [before, ...path].forEach((from, at, all) => this.transitions.get(`${from} ${all[at + 1]}`)?.classList.add("lit"));
    this.picture.setAttribute("aria-label", `States of the chat; it is ${state}`);
  }

  box(state) {
    const [x, y, width] = this.places[state];
    const frame = shape("rect", { x: x - width / 2, y: y - HIGH / 2, width, height: HIGH, rx: 9 });
    const label = shape("text", { x, y: y + 4 }, state);
    const made = shape("g", { class: "box", "data-state": state }, frame, label);
    this.boxes.set(state, made);
    return made;
  }

  way(key, events) {
    const [from, to] = key.split(" ");
    const aside = events.every((event) => ASIDE.includes(event));
    const title = shape("title", {}, `${from} → ${to}: ${events.join(", ")}`);
    const made = shape("path", { d: this.line(from, to), class: aside ? "way aside" : "way", "data-way": key }, title);
    this.transitions.set(key, made);
    return made;
  }

  line(from, to) {
    const [x, y, width] = this.places[from], [tox, toy, towidth] = this.places[to];
    if (Math.abs(toy - y) < 1) {
      const right = tox > x ? 1 : -1, lift = -5 * right;
      return `M${x + (right * width) / 2} ${y + lift} L${tox - (right * towidth) / 2 - right * 4} ${toy + lift}`;
    }
    if (x !== tox) return `M${x} ${y - HIGH / 2} L${tox + towidth / 2 - 8} ${toy + HIGH / 2 + 4}`;
    if (toy > y && toy - y < 70) return `M${x} ${y + HIGH / 2} L${tox} ${toy - HIGH / 2 - 4}`;
    const side = LEFT.includes(to) && toy < y ? -1 : 1;
    const bow = side * (side < 0 ? 14 + Math.abs(toy - y) / 8 : 18 + Math.abs(toy - y) / 3.2);
    const edge = x + (side * BOX) / 2, shift = 5 * Math.sign(toy - y);
    return `M${edge} ${y + shift} C${edge + bow} ${y}, ${edge + bow} ${toy}, ${edge + side * 4} ${toy - shift}`;
  }
}

function grouped(moves) {
  const transitions = new Map();
  for (const { from, to, event } of moves) {
    const key = `${from} ${to}`, name = event.split(" ")[0] || "at once";
    if (from !== to) transitions.set(key, [...new Set([...(transitions.get(key) ?? []), name])]);
  }
  return transitions;
}

function arrow(id, size) {
  const tip = shape("path", { d: "M0 0 L6 3 L0 6 z" });
  return shape("marker", { id, viewBox: "0 0 6 6", refX: 2, refY: 3, markerWidth: size, markerHeight: size, markerUnits: "userSpaceOnUse", orient: "auto" }, tip);
}

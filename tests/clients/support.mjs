// What node.py passes to a script, and how the script answers.
import { readFileSync, writeSync } from "node:fs";

export const input = JSON.parse(readFileSync(0, "utf-8"));

export function print(value) {
  writeSync(1, JSON.stringify(value) + "\n");
}

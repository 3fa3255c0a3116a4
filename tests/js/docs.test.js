import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { TrainingApi } from "../../static/weei/api/training.js";
import { golden } from "./interfaces.js";

const read = (/** @type {string} */ path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("docs/js-api.md");
const declared = /export interface DistributedTraining \{\n(.*?)\n\}/s.exec(read("static/weei/weei.d.ts"))?.[1] ?? "";
const methods = [...declared.matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => /** @type {string} */ (name));
const shapes = ["TrainingState", "TrainingJob", "ParticipantState", "RoundSlot", "CheckpointSummary", "PeerProgress", "TransferProgress"];

/** What the page says of one shape. @param {string} name */
function described(name) {
  const [, after = ""] = page.split(`**${name}**`);
  return after.split(/\n\*\*|\n## /)[0] ?? "";
}

test("every method is declared, implemented and described, and no other", () => {
  const table = page.slice(page.indexOf("## Methods"), page.indexOf("## State"));
  const rows = [...table.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell]) => [...String(cell).matchAll(/`(\w+)\(/g)].map(([, name]) => name));
  assert.ok(methods.length > 30);
  assert.deepEqual(rows.sort(), [...methods].sort());
  for (const name of methods) assert.equal(typeof Object.getOwnPropertyDescriptor(TrainingApi.prototype, name)?.value, "function", name);
});

test("every field of the state is described", () => {
  for (const name of shapes) {
    const fields = Object.keys({ ...golden.founding[name], ...golden.ours[name] }).map((field) => field.replace(/\?$/, ""));
    assert.deepEqual(fields.filter((field) => !described(name).includes(`\`${field}\``)), [], name);
  }
});

test("every value that a field may have is described", () => {
  for (const name of shapes) {
    for (const [field, kind] of Object.entries({ ...golden.founding[name], ...golden.ours[name] })) {
      for (const value of kind.oneOf ?? []) assert.ok(page.includes(value), `${name}.${field}: ${value}`);
    }
  }
});

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const folder = new URL("../../static/vendor/", import.meta.url);
const readme = readFileSync(new URL("README.md", folder), "utf8");
// The page of a package in its licence header is left out of the vendored copy.
const text = (/** @type {URL} */ file) => readFileSync(file, "utf8").replace(/ \(https:\/\/www\.[a-z.]+\/package\/[a-z-]+\)/, "");
const hash = (/** @type {URL} */ file) => createHash("sha256").update(text(file)).digest("hex");
const sources = [
  ["hash-wasm-sha256-4.13.0.umd.min.js", "hash-wasm/dist/sha256.umd.min.js"],
  ["tus-4.3.1.min.js", "tus-js-client/dist/tus.min.js"],
  ["bowser-2.15.1.js", "bowser/bowser.mjs"],
];

for (const [file = "", source = ""] of sources) {
  test(`${file} is the pinned release, and its hash is written down`, () => {
    assert.equal(hash(new URL(file, folder)), hash(new URL(`../../node_modules/${source}`, import.meta.url)));
    assert.ok(readme.includes(`\`${hash(new URL(file, folder))}\``));
  });
}

test("every vendored script names its version", () => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".js"))) assert.match(file, /\d+\.\d+\.\d+/);
});

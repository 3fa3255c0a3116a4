// What the new-job page needs to know of a chosen manifest. Whether it is right, the server says.

/**
 * `source` is the package's workSource as it stands; null for a dataset job. `slots` are the auxiliary weights that files fill.
 * @typedef {{chunks: number, largest: number, source: any, slots: Array<{fileName: string, bytes: unknown}>}} ManifestFacts
 */

/** @type {ManifestFacts} */
export const NOTHING = { chunks: 0, largest: 0, source: null, slots: [] };

/** @param {unknown} value @returns {any[]} */
const list = (value) => (Array.isArray(value) ? value : []);

/** @param {any} value the parsed manifest @returns {ManifestFacts} */
export function factsOf(value) {
  const chunks = list(Array.isArray(value) ? value : value?.inlineJson?.["dataset-manifest.json"]);
  return {
    chunks: chunks.length,
    largest: chunks.reduce((most, entry) => Math.max(most, Number(entry?.exampleCount) || 0), 0),
    source: value?.workSource ?? null,
    slots: list(value?.auxiliaryWeights).filter((slot) => typeof slot?.fileName === "string"),
  };
}

/** @param {File | undefined} file @returns {Promise<ManifestFacts>} */
export async function readManifest(file) {
  if (!file) return NOTHING;
  try {
    return factsOf(JSON.parse(await file.text()));
  } catch {
    return NOTHING;
  }
}

/** Whether the model makes all of its data. @param {ManifestFacts} facts */
export const makesData = (facts) => facts.source?.inputs === "none";

// The files of a shipped example, as if the person had chosen them.

/** @typedef {{wasm: File, manifest: File, files: File[], validation?: File, settings: Record<string, any>}} PresetFiles */

/** @param {string} url @param {string} path of a file beside it @returns {Promise<File>} */
async function fileBeside(url, path) {
  const response = await fetch(new URL(path, new URL(url, location.href)));
  if (!response.ok) throw new Error(`${path} answered ${response.status}.`);
  return new File([await response.blob()], path.split("/").at(-1) ?? path);
}

/** @param {string} url of a preset.json @returns {Promise<PresetFiles>} */
export async function presetFiles(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}.`);
  const preset = await response.json();
  const [wasm, manifest, validation, ...files] = await Promise.all([
    fileBeside(url, preset.module),
    fileBeside(url, preset.manifest),
    preset.validation ? fileBeside(url, preset.validation) : undefined,
    ...preset.files.map((/** @type {string} */ path) => fileBeside(url, path)),
  ]);
  return {
    wasm: /** @type {File} */ (wasm),
    manifest: /** @type {File} */ (manifest),
    files: /** @type {File[]} */ (files),
    ...(validation ? { validation } : {}),
    settings: preset.settings,
  };
}

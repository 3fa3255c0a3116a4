/** Workers of our own files, on whatever page. A browser loads a Worker's script from the page's origin only, so elsewhere it is a `blob:`
 * module that imports the real one; what it needs of the page's policy stands in docs/embedding.md. */

/** @type {Map<string, string>} addresses of the blobs, which must live as long as Workers may be started anew */
const blobs = new Map();

/** @param {URL} url @param {string} name @returns {Worker} */
export function spawnModule(url, name) {
  return new Worker(url.origin === globalThis.origin ? url : blobFor(url.href), { type: "module", name });
}

/** @param {string} href */
function blobFor(href) {
  const known = blobs.get(href);
  if (known) return known;
  const made = URL.createObjectURL(new Blob([`import ${JSON.stringify(href)};`], { type: "text/javascript" }));
  blobs.set(href, made);
  return made;
}

/** A model's auxiliary slots: what may be fetched for them, and how many snapshots are worth their room. */

/** More than these are not kept, however far apart a model's rules look back. */
const MOST_SNAPSHOTS = 16;

/** @typedef {import("../types.js").AuxiliaryRef} AuxiliaryRef */
/** @typedef {import("../types.js").AuxiliarySlot} AuxiliarySlot */

/** Refuses what the model does not declare, before a byte of it is fetched. @param {AuxiliaryRef[]} offered @param {AuxiliarySlot[]} declared */
export function checkDeclared(offered, declared) {
  for (const { id, sha256, bytes } of offered) {
    const slot = declared.find((one) => one.id === id);
    if (!slot) throw new Error(`The server offers auxiliary weights ${id}, which the model does not declare.`);
    if (slot.bytes === bytes && (slot.sha256 ?? sha256).toLowerCase() === sha256) continue;
    const expected = `${slot.bytes} bytes${slot.sha256 ? ` with SHA-256 ${slot.sha256}` : ""}`;
    throw new Error(`The server offers auxiliary weights ${id} of ${bytes} bytes with SHA-256 ${sha256}; the model declares ${expected}.`);
  }
}

/** An assignment fills every slot, in the order in which they are loaded. @param {AuxiliaryRef[]} filled @param {AuxiliarySlot[]} declared */
export function checkAllFilled(filled, declared) {
  const [found, expected] = [filled, declared].map((slots) => slots.map(({ id }) => id).join(", "));
  if (found !== expected) throw new Error(`The assignment must fill the slots that the model declares: ${expected}; found: ${found}.`);
}

/**
 * A checkpoint that one slot looks back to is needed again by those that look back further: so many were used last when that comes.
 * @param {AuxiliarySlot[]} declared
 */
export function snapshotsWorthKeeping(declared) {
  const rules = declared.flatMap(({ source }) => source ?? []);
  const back = rules.flatMap(({ roundsAgo }) => roundsAgo ?? []);
  const initial = rules.length > back.length ? 1 : 0;
  const span = back.length ? Math.max(...back) - Math.min(...back) + 1 : 0;
  return Math.min(initial + back.length * span, MOST_SNAPSHOTS);
}

/** Measures assignments of an experience model in a Worker, through the host that training uses. */
import { trainAssignment } from "/static/weei/host/assignment.js";
import { compileModule } from "/static/weei/host/module.js";

const bytes = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

onmessage = async ({ data: { module: url, settings, episodes, repeats } }) => {
  const module = await compileModule(await bytes(url));
  const weights = await bytes("/input");
  const rates = [];
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const experience = { seed: "1", unitStart: episodes * repeat, unitCount: episodes };
    const begun = performance.now();
    const inputs = { module, weights, auxiliary: [], work: { settings, round: 1, experience } };
    const { result } = await trainAssignment(inputs, { onProgress: () => {} });
    rates.push((result.metrics.episodeReturn * episodes * 1000) / (performance.now() - begun));
  }
  postMessage(rates);
};

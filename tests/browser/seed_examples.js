// The examples of the founding text, word for word; what each takes from its page is a parameter.

export async function gettingTheApi() {
  const weei = await window.weeiReady;
  const training = weei.widgetsApi.get('distributed-training');
  if (!training) throw new Error('Distributed training is not enabled for this site.');
  return training;
}

export async function runAJob({ wasmInput, manifestInput, datasetInput }) {
  const weei = await window.weeiReady;
  const training = weei.widgetsApi.get('distributed-training');

  const stop = training.subscribe(state => {
    const job = state.job;
    if (!job) return;
    const passes = job.progress ? job.progress.datasetEpoch + ' / ' + job.progress.plannedEpochs : '';
    const last = job.checkpoints.at(-1);
    console.log(job.status, passes, last?.metrics.values, Object.keys(job.participants));
  });

  await training.createJob({
    wasm: wasmInput.files[0],
    manifest: manifestInput.files[0],
    files: [...datasetInput.files],
    settings: { epochs: 3, localEpochs: 1, batchSize: 32, coordinatorParticipates: true }
  });
  for (const peerId of training.getState().peers) training.invite(peerId);
  await training.start();
  return stop;
}

export async function compareParticipants() {
  const weei = await window.weeiReady;
  const training = weei.widgetsApi.get('distributed-training');
  const show = value => (value === 'unknown' || value === null ? '—' : value);

  training.subscribe(state => {
    const rows = Object.entries(state.diagnostics).map(([peerId, d]) => ({
      peer: peerId,
      browser: show(d.environment.browser) + ' ' + show(d.environment.browserVersion),
      mode: show(d.execution.actual) + (d.execution.fallbackReason ? ' (fallback: ' + d.execution.fallbackReason + ')' : ''),
      workers: d.execution.activeWorkers,
      batch: d.assignment ? d.assignment.batchSize : '—',
      examples: d.assignment ? d.assignment.exampleCount : '—',
      trainingMs: show(d.timings.trainingMs),
      speed: show(d.performance.currentExamplesPerSecond),
      fresh: d.stale ? 'stale ' + Math.round(d.ageMs / 1000) + ' s' : 'live'
    }));
    console.table(rows);
  });
}

export async function switchToFedAvgM({ training }) {
  await training.updateSettings({
    ...training.getState().job.settings,
    aggregation: { method: 'fedavgm', momentum: 0.9 }
  });
}

export async function continueFromACheckpoint({ training, manifest, files, settings }) {
  const checkpoint = training.exportCheckpoint(); // the latest checkpoint, as a File
  const wasm = training.exportModule();           // the job's model, if this browser keeps it
  await training.leave();                          // the current job stays in Saved jobs
  await training.continueFromCheckpoint({
    checkpoint,
    wasm, manifest, files, settings,
    datasetMode: 'new' // 'new': fresh dataset queue; 'resume': restore the old queue
  });
}

export async function createAnExperienceJob({ training, modelFile, packageManifestFile }) {
  await training.createJob({
    wasm: modelFile,
    manifest: packageManifestFile,               // the model's package manifest.json
    files: [],                                   // no dataset; add auxiliary weights files here, if any
    settings: {
      epochs: 30,                                // rounds
      localEpochs: 1,
      batchSize: 16,
      coordinatorParticipates: true,
      experience: { unitsPerAssignment: 32 },
      validationSchedule: { enabled: true, unit: 'round', every: 5 },
    },
  });
}

export async function readCheckpoint(file) {
  const bytes = await file.arrayBuffer();
  const metadataBytes = new DataView(bytes).getUint32(0, true);
  const metadata = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, metadataBytes)));
  const start = 4 + metadataBytes;
  const weights = new Float32Array(bytes.slice(start, start + metadata.checkpoint.bytes));
  const state = metadata.version === 2
    ? new Float32Array(bytes.slice(start + metadata.checkpoint.bytes))
    : undefined;
  return { metadata, weights, state };
}

/** The network of training_load.py in TensorFlow.js in a Worker, on the backend that the task names. */
const LIBRARY = "/benchmarks/node_modules/@tensorflow";

/** Its functions of one batch, with the weights at /input. @param {any} tf @param {any} task */
function network(tf, { sizes, tokens }, values) {
  const { vocabSize, context, layers, heads, width, hidden } = sizes;
  const batch = tokens.length;
  const rows = batch * context;
  let at = 0;
  const variables = [];
  const take = (...shape) => {
    const count = shape.reduce((product, size) => product * size, 1);
    variables.push(tf.variable(tf.tensor(values.subarray(at, at + count), shape)));
    at += count;
    return variables[variables.length - 1];
  };
  const linear = (inputs, outputs) => [take(inputs, outputs), take(outputs)];
  const norm = () => [take(width), take(width)];
  const [token, position] = [take(vocabSize, width), take(context, width)];
  const blocks = Array.from({ length: layers }, () => ({
    norm1: norm(), qkv: linear(width, 3 * width), projection: linear(width, width),
    norm2: norm(), hidden: linear(width, hidden), out: linear(hidden, width),
  }));
  const last = norm();
  if (at !== values.length) throw new Error(`The weights have ${values.length} values, the network has ${at}`);

  const mask = tf.tensor(Array.from({ length: context * context }, (_, i) => (i % context > Math.floor(i / context) ? -1e9 : 0)), [context, context]);
  const inputs = tf.oneHot(tf.tensor(tokens.map((record) => record.slice(0, -1)).flat(), [rows], "int32"), vocabSize).toFloat();
  const targets = tf.oneHot(tf.tensor(tokens.map((record) => record.slice(1)).flat(), [rows], "int32"), vocabSize).toFloat();

  const dense = (x, [weight, bias]) => x.matMul(weight).add(bias);
  const normal = (x, [gain, bias]) => {
    const centred = x.sub(x.mean(-1, true));
    return centred.mul(centred.square().mean(-1, true).add(1e-5).rsqrt()).mul(gain).add(bias);
  };
  const gelu = (x) => x.mul(0.5).mul(x.add(x.square().mul(x).mul(0.044715)).mul(0.7978845608).tanh().add(1));
  const head = (x) => x.reshape([batch, context, heads, width / heads]).transpose([0, 2, 1, 3]);
  const attention = (x, block) => {
    const [query, key, value] = tf.split(dense(x, block.qkv), 3, 1).map(head);
    const scores = query.matMul(key, false, true).mul(1 / Math.sqrt(width / heads)).add(mask);
    return dense(scores.softmax().matMul(value).transpose([0, 2, 1, 3]).reshape([rows, width]), block.projection);
  };
  const loss = () => {
    // A product with one-hot rows: the gradient of `gather` is not in every backend.
    let x = inputs.matMul(token).reshape([batch, context, width]).add(position).reshape([rows, width]);
    for (const block of blocks) {
      x = x.add(attention(normal(x, block.norm1), block));
      x = x.add(dense(gelu(dense(normal(x, block.norm2), block.hidden)), block.out));
    }
    return tf.losses.softmaxCrossEntropy(targets, normal(x, last).matMul(token, false, true));
  };
  return { variables, loss };
}

/** One step of AdamW with a clipped gradient; the loss before it. */
function step(tf, { variables, loss }, optimizer, training) {
  return tf.tidy(() => {
    const { value, grads } = tf.variableGrads(loss, variables);
    const squares = tf.addN(Object.values(grads).map((gradient) => gradient.square().sum()));
    const factor = tf.minimum(1, tf.scalar(training.clip_norm).div(squares.sqrt()));
    for (const variable of variables)
      if (variable.rank > 1) variable.assign(variable.mul(1 - training.learning_rate * training.weight_decay));
    const clipped = Object.fromEntries(Object.entries(grads).map(([name, gradient]) => [name, gradient.mul(factor)]));
    optimizer.applyGradients(clipped);
    return value;
  });
}

onunhandledrejection = ({ reason }) => reportError(reason);

onmessage = async ({ data: task }) => {
  const values = new Float32Array(await (await fetch("/input")).arrayBuffer());
  await import(`${LIBRARY}/tfjs/dist/tf.min.js`);
  await import(`${LIBRARY}/tfjs-backend-wasm/dist/tf-backend-wasm.min.js`);
  const tf = globalThis.tf;
  tf.wasm.setWasmPaths(`${LIBRARY}/tfjs-backend-wasm/dist/`);
  if (!(await tf.setBackend(task.backend))) throw new Error(`The backend ${task.backend} did not start`);
  const made = network(tf, task, values);
  const { learning_rate, beta1, beta2, epsilon } = task.training;
  const optimizer = tf.train.adam(learning_rate, beta1, beta2, epsilon);
  const seconds = [];
  const losses = [];
  for (let count = 0; count < task.steps; count += 1) {
    const begun = performance.now();
    const value = step(tf, made, optimizer, task.training);
    losses.push((await value.data())[0]);
    seconds.push((performance.now() - begun) / 1000);
  }
  postMessage({ version: tf.version_core, seconds, losses });
};

// The common part of the Node drivers.
//
// A driver obeys the test: each line of its input is an order in JSON, each line of its output is
// the answer, {"ok": VALUE} or {"error": [CLASS, TEXT]}, as the client returned it.

const readline = require('node:readline');

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const told = (found) =>
  found instanceof Error ? { error: [found.constructor.name, found.message] } : { ok: found };

const lines = readline.createInterface({ input: process.stdin });
const waiting = [];
let wake = null;
lines.on('line', (line) => {
  waiting.push(line);
  wake?.();
});
lines.on('close', () => process.exit());

async function next() {
  while (waiting.length === 0) await new Promise((resolve) => { wake = resolve; });
  return waiting.shift();
}

// Sends the same command until the next order comes. A command that a lost connection leaves
// unanswered is repeated, and only answers are counted.
async function keep(client, args) {
  let answered = 0;
  while (waiting.length === 0) {
    try {
      await client.ask(args);
    } catch (error) {
      if (!client.isLost(error)) throw error;
      // A client without a connection fails at once: gives it time to connect.
      await new Promise((resolve) => setTimeout(resolve, 1));
      continue;
    }
    answered += 1;
    if (answered === 1) say({ ok: 'keeps asking' });
  }
  await next();
  return answered;
}

async function obeyOne(client, order) {
  switch (order.do) {
    case 'connect':
      await client.connect(order.port, order.protocol, order.password);
      return { ok: 'connected' };
    case 'ask':
      return told(await client.ask(order.args));
    case 'many':
      return { ok: (await client.many(order.asks, order.transaction)).map(told) };
    case 'own':
      return told(await client.own());
    case 'keep':
      return { ok: await keep(client, order.args) };
    default:
      throw new Error(`found the order ${order.do}, expected one of this file`);
  }
}

// Serves the test. `load` returns the client, or throws if it is not installed. The client has
// `connect(port, protocol, password)`, `ask(args)`, `many(asks, transaction)`, which returns errors
// among the replies, `own()`, and `isLost(error)`, which is true if the connection was lost.
exports.obey = async (load) => {
  let client;
  try {
    client = load();
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    say({ missing: error.message.split('\n')[0] });
    process.exit();
  }
  say({ ok: client.version });
  for (;;) {
    const order = JSON.parse(await next());
    say(await obeyOne(client, order).catch(told));
  }
};

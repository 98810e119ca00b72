// The programs of docs/redis.md run as written, in the project of a user.

'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { project, run } = require('./project');
const { PATIENT, Serving } = require('./serving');

const PAGE = fs.readFileSync(path.join(__dirname, '../../../docs/redis.md'), 'utf8');
const README = fs.readFileSync(path.join(__dirname, '../README.md'), 'utf8');

/** What stands behind each program, and tells how many requests it admits. */
const COUNTED = {
  'express-rate-limit': `
app.get('/', (request, response) => response.send('served'));
const server = app.listen(0, '127.0.0.1', async () => {
  const url = \`http://127.0.0.1:\${server.address().port}/\`;
  const statuses = [];
  for (let nth = 0; nth < 7; nth += 1) statuses.push((await fetch(url)).status);
  console.log(statuses.join());
  process.exit();
});`,
  'frs-express/flexible': `
for (let nth = 0; nth < 4; nth += 1) await limiter.consume('alice');
const last = await limiter.consume('alice').catch(({ msBeforeNext }) => msBeforeNext > 0);
console.log(last);
process.exit();`,
  '@fastify/rate-limit': `
app.get('/', async () => 'served');
const statuses = [];
for (let nth = 0; nth < 7; nth += 1) statuses.push((await app.inject('/')).statusCode);
console.log(statuses.join());
process.exit();`,
};

test('the programs of the page admit five and refuse the sixth', async (t) => {
  const all = [...PAGE.matchAll(/```js\n([\s\S]*?)```/g)].map(([, block]) => block);
  const blocks = all.filter((block) => block.includes('frs-express'));
  const { folder } = project(t);
  const frs = await Serving.start(t);
  const env = { ...process.env, NODE_PATH: '' };
  for (const [library, behind] of Object.entries(COUNTED)) {
    const block = blocks.find((text) => text.includes(`from '${library}'`));
    const at = `'frs://127.0.0.1:${frs.port}', timeout: ${PATIENT}`;
    const program = (block + behind).replace("'frs://127.0.0.1:6380'", at);
    fs.writeFileSync(path.join(folder, 'program.mjs'), program);
    const said = run('node', ['program.mjs'], { cwd: folder, env });
    assert.strictEqual(said, library === 'frs-express/flexible' ? 'true\n'
      : '200,200,200,200,200,429,429\n', program);
  }
  assert.strictEqual(blocks.length, 3);
});

test('the page of the package says the same', () => {
  const calls = /new (FrsStore|RateLimiterFrs)\(.*\)|fastifyStore\(.*\)|rateLimit, \{.*\}/g;
  const inPage = PAGE.match(calls);
  for (const call of README.match(calls)) assert.ok(inPage.includes(call), call);
});

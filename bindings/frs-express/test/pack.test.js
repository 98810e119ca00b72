// The package as its users get it: its files, by require and import, and its types.

'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { project, run } = require('./project');
const { PATIENT, Serving } = require('./serving');

const USE = `
const limiter = rateLimit({ windowMs: 60_000, limit: 2, store: new FrsStore({ url }) });
const flexible = new RateLimiterFrs({ url, points: 2, duration: 60 });
const app = fastify();
await app.register(fastifyRateLimit, { max: 2, timeWindow: 1000, store: fastifyStore({ url }) });
app.get('/', async () => 'served');
`;

const IMPORTS = `
import { rateLimit } from 'express-rate-limit';
import fastify from 'fastify';
import fastifyRateLimit from '@fastify/rate-limit';
import { FrsStore, FrsError } from 'frs-express';
import { RateLimiterFrs } from 'frs-express/flexible';
import { fastifyStore } from 'frs-express/fastify';
`;

test('it is packed whole, without tests, and serves require and import', async (t) => {
  const { folder, files } = project(t);
  assert.deepStrictEqual(files.sort(), [
    'README.md', 'fastify.d.ts', 'fastify.js', 'flexible.d.ts', 'flexible.js', 'frs.d.ts', 'frs.js',
    'index.d.ts', 'index.js', 'package.json',
  ]);
  const manifest = fs.readFileSync(path.join(__dirname, '../../../Cargo.toml'), 'utf8');
  const [, version] = /\[workspace\.package\][^[]*?\nversion = "(.*)"/.exec(manifest);
  assert.strictEqual(require('../package.json').version, version);
  const frs = await Serving.start(t);
  const env = { ...process.env, NODE_PATH: '', FRS_URL: frs.url };
  const asks = `
const url = process.env.FRS_URL;
${USE.replaceAll('{ url', `{ timeout: ${PATIENT}, url`)}
const { remainingPoints } = await flexible.consume(process.argv[1]);
const { statusCode } = await app.inject('/');
const found = [remainingPoints, statusCode, typeof limiter, typeof FrsError];
if (found.join() !== '1,200,function,function') throw new Error(found.join());
process.exit();
`;
  fs.writeFileSync(path.join(folder, 'use.mjs'), IMPORTS + asks);
  run('node', ['use.mjs'], { cwd: folder, env });
  const requires = IMPORTS.replace(/import (.*) from ('.*');/g, 'const $1 = require($2);');
  fs.writeFileSync(path.join(folder, 'use.cjs'), `${requires}(async () => {${asks}})();`);
  run('node', ['use.cjs'], { cwd: folder, env });
});

test('its types are those of the libraries', (t) => {
  const { folder } = project(t);
  const options = {
    strict: true, noEmit: true, module: 'nodenext', target: 'es2022', types: ['node'],
    exactOptionalPropertyTypes: false, skipLibCheck: false,
  };
  const more = `
const code: string = new RateLimiterFrs({ url, points: 1, duration: 1, biz: 'a' }).keyPrefix;
const hits: Promise<{ totalHits: number }> = new FrsStore({ url, most: 5 }).increment('a');
export { limiter, flexible, code, hits, FrsError };
`;
  const typed = `${IMPORTS}const url: string = 'frs://127.0.0.1';${USE}${more}`;
  const check = (text, problem) => {
    fs.writeFileSync(path.join(folder, 'use.mts'), text);
    fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({
      compilerOptions: options, files: ['use.mts'],
    }));
    const compiler = path.join(folder, 'node_modules/typescript/bin/tsc');
    const found = spawnSync(process.execPath, [compiler, '-p', '.'], {
      cwd: folder, encoding: 'utf8',
    });
    // Only what this package says: the types of others may need a newer compiler.
    const ours = found.stdout.split('\n').filter((line) => /frs-express|^use\.mts/.test(line));
    assert.match(ours.join('\n'), problem, found.stdout);
  };
  check(typed, /^$/);
  check(typed.replace("biz: 'a'", 'biz: 1'), /use\.mts.*'number' is not assignable/);
  check(typed.replace('most: 5', 'least: 5'), /use\.mts.*'least' does not exist/);
});

// A project of a user: the packed package, installed beside the libraries.

'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { directory } = require('./serving');

const PACKAGE = path.join(__dirname, '..');

function run(program, words, options) {
  const found = spawnSync(program, words, { encoding: 'utf8', ...options });
  const said = found.error?.message ?? `${found.stdout}${found.stderr}`;
  assert.strictEqual(found.status, 0, `${program} ${words.join(' ')}: ${said}`);
  return found.stdout;
}

/** The folder of a new project, and the files of the package. */
function project(t) {
  const folder = directory(t);
  const packed = run('npm', ['pack', '--json', '--pack-destination', folder], {
    cwd: PACKAGE,
    env: {
      ...process.env, npm_config_cache: path.join(folder, 'cache'),
      npm_config_update_notifier: 'false',
    },
  });
  const [{ filename, files }] = JSON.parse(packed);
  const modules = path.join(folder, 'node_modules');
  fs.mkdirSync(modules);
  const libraries = process.env.NODE_PATH;
  for (const name of fs.readdirSync(libraries)) {
    fs.symlinkSync(path.join(libraries, name), path.join(modules, name));
  }
  fs.mkdirSync(path.join(modules, 'frs-express'));
  run('tar', ['xzf', filename, '--strip-components', '1', '-C', 'node_modules/frs-express'], {
    cwd: folder,
  });
  return { folder, files: files.map((file) => file.path) };
}

module.exports = { project, run };

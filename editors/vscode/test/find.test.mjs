// Where the server is looked for.

import assert from 'node:assert';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';

const { find, buildable, NAME } = createRequire(import.meta.url)('../src/find.js');

function program(dir, name = NAME) {
  mkdirSync(dir, { recursive: true });
  const file = path.join(dir, name);
  writeFileSync(file, '');
  chmodSync(file, 0o755);
  return file;
}

test('the server is found where it is built, installed, or told to be', (t) => {
  const root = mkdtempSync(path.join(os.tmpdir(), 'relax-'));
  t.after(() => rmSync(root, { recursive: true }));
  const env = { HOME: path.join(root, 'home'), PATH: path.join(root, 'bin') };
  const folder = path.join(root, 'work');
  assert.equal(find('', [folder], env), undefined);
  const onPath = program(path.join(root, 'bin'));
  assert.equal(find('relax-lsp', [folder], env), onPath);
  const installed = program(path.join(root, 'home', '.cargo', 'bin'));
  assert.equal(find('relax-lsp', [folder], env), installed);
  const built = program(path.join(folder, 'target', 'debug'));
  assert.equal(find('relax-lsp', [folder], env), built);
  const own = program(path.join(folder, 'tools'), 'server');
  assert.equal(find('tools/server', [folder], env), own);
  assert.equal(find(own, [], env), own);
  assert.equal(find('tools/none', [folder], env), undefined);
  // Of folders that are not trusted, nothing is started.
  assert.equal(find('relax-lsp', [], env), installed);
  assert.equal(find('tools/server', [], env), undefined);
  assert.equal(buildable([folder]), undefined);
  mkdirSync(path.join(folder, 'crates', 'lsp'), { recursive: true });
  writeFileSync(path.join(folder, 'crates', 'lsp', 'Cargo.toml'), '');
  assert.equal(buildable([root, folder]), folder);
});

// The TextMate grammar on real files, read by what VS Code itself uses.

import assert from 'node:assert';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const textmate = require('vscode-textmate');
const oniguruma = require('vscode-oniguruma');

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '../../..');
const wasm = readFileSync(require.resolve('vscode-oniguruma/release/onig.wasm')).buffer;
const onigLib = oniguruma.loadWASM(wasm).then(() => ({
  createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
  createOnigString: (text) => new oniguruma.OnigString(text),
}));
const registry = new textmate.Registry({
  onigLib,
  loadGrammar: async (scope) => {
    const files = { 'source.relay': 'relay.tmLanguage.json', 'markdown.relay.codeblock': 'markdown.json' };
    // VS Code has a grammar of JSON; here an empty one stands for it.
    if (scope === 'source.json') return { scopeName: scope, patterns: [], repository: {} };
    if (!files[scope]) return null;
    const file = path.join(here, '../syntaxes', files[scope]);
    return textmate.parseRawGrammar(readFileSync(file, 'utf8'), file);
  },
});

/** The tokens of a text: its words with the innermost scope of each. */
async function tokens(text) {
  const grammar = await registry.loadGrammar('source.relay');
  let stack = textmate.INITIAL;
  const out = [];
  for (const line of text.split('\n')) {
    const result = grammar.tokenizeLine(line, stack);
    stack = result.ruleStack;
    for (const t of result.tokens) {
      const word = line.slice(t.startIndex, t.endIndex);
      if (word.trim()) out.push([word.trim(), t.scopes.at(-1).replace(/\.relay$/, '')]);
    }
  }
  return out;
}

const has = (list, word, scope) =>
  assert.ok(list.some(([w, s]) => w === word && s === scope), `${word} is no ${scope}: ${JSON.stringify(list)}`);

test('a function', async () => {
  const found = await tokens('def @f(%x: Tensor[(n, 4), float32]) { nn.softmax(%x, axis=-1) } // done');
  has(found, 'def', 'keyword.control');
  has(found, '@f', 'entity.name.function');
  has(found, '%x', 'variable.other');
  has(found, 'Tensor', 'support.type');
  has(found, 'float32', 'support.type');
  has(found, '4', 'constant.numeric');
  has(found, 'nn.softmax', 'support.function');
  has(found, 'axis', 'variable.parameter.attribute');
  has(found, '// done', 'comment.line.double-slash');
});

test('soft keywords are keywords in their places only', async () => {
  const found = await tokens('data List { }\nop my.f(%data: T) { compute shape(n) }\nadd(data=1)');
  has(found, 'data', 'keyword.control');
  has(found, 'op', 'keyword.control');
  has(found, 'shape', 'keyword.control');
  has(found, '%data', 'variable.other');
  has(found, 'data', 'variable.parameter.attribute');
});

test('comments nest, and end', async () => {
  const found = await tokens('/* a /* b */ c */ let\n# d\nlet');
  assert.equal(found.filter(([w, s]) => w === 'let' && s === 'keyword.control').length, 2);
  has(found, '# d', 'comment.line.number-sign');
});

test('metadata is the rest of the file', async () => {
  const found = await tokens('#[version = "0.0.5"]\nmeta[relay.Constant][0]\n#[metadata]\n{"def": 1}');
  has(found, '#[version = "0.0.5"]', 'keyword.control.version');
  has(found, 'meta[relay.Constant][0]', 'constant.other.meta');
  has(found, '#[metadata]', 'keyword.control.metadata');
  assert.ok(!found.some(([w, s]) => w === 'def' && s === 'keyword.control'));
});

test('real files: every name has a sort', async () => {
  const dir = path.join(root, 'examples');
  const files = readdirSync(dir).filter((f) => f.endsWith('.relay'));
  assert.ok(files.length > 5);
  for (const file of files) {
    for (const [word, scope] of await tokens(readFileSync(path.join(dir, file), 'utf8'))) {
      if (/^[%@]\w/.test(word)) assert.ok(scope !== 'source', `${file}: ${word} is nothing`);
      if (word === 'def' || word === 'let') assert.equal(scope, 'keyword.control', file);
    }
  }
});

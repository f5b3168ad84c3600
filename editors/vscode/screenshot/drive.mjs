// Opens a folder in VS Code, looks at what the extension shows there, and takes pictures of it.
// Usage: node drive.mjs BROWSER TOOLS EXTENSION PICTURES
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { chromium } from 'playwright-core';

const [browserPath, tools, extension, pictures] = process.argv.slice(2);
const here = import.meta.dirname;
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'relay-vscode-'));
const folder = path.join(work, 'models');
const entry = path.join(here, 'node_modules/code-server');
const dirs = ['--user-data-dir', path.join(work, 'user'), '--extensions-dir', path.join(work, 'extensions')];
const env = { ...process.env, XDG_CONFIG_HOME: work, XDG_DATA_HOME: work, XDG_CACHE_HOME: work };
const settingsFile = path.join(work, 'user/User/settings.json');
const settings = {
  'relax.server.path': path.join(tools, 'relax-lsp'),
  'workbench.startupEditor': 'none',
  'workbench.colorTheme': 'Default Light Modern',
  'workbench.activityBar.location': 'hidden',
  'workbench.tips.enabled': false,
  'window.commandCenter': false,
  'security.workspace.trust.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'extensions.autoCheckUpdates': false,
  'editor.minimap.enabled': false,
  'editor.scrollBeyondLastLine': false,
  'files.autoSave': 'off',
};

/** A port nobody uses. */
const freePort = () =>
  new Promise((done) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until something holds; says what it waited for when it never does. */
async function until(what, holds) {
  for (let tries = 0; tries < 600; tries++) {
    const found = await holds().catch(() => undefined);
    if (found) return found;
    await sleep(100);
  }
  throw new Error(`never: ${what}`);
}

let page;
/** Spaces in the editor are drawn as no-break spaces. */
const plain = (text) => text.replaceAll('\u00a0', ' ');
const textOf = async (selector) => {
  const all = await page.locator(selector).allInnerTexts();
  return plain(all.join('\n'));
};
const shows = (what, selector, text) => until(`${what}: «${text}»`, async () => (await textOf(selector)).includes(text));

async function command(name) {
  await page.keyboard.press('F1');
  await page.waitForSelector('.quick-input-widget input');
  await page.keyboard.type(name, { delay: 5 });
  await until(`a command «${name}»`, async () => (await textOf('.quick-input-list .focused')).includes(name));
  await page.keyboard.press('Enter');
}

async function goTo(place) {
  await command('View: Focus Active Editor Group');
  await page.keyboard.press('Control+g');
  await page.waitForSelector('.quick-input-widget input');
  await page.keyboard.type(place);
  await page.keyboard.press('Enter');
  await sleep(300);
}

async function hover(place) {
  await goTo(place);
  await page.keyboard.press('Control+k');
  await page.keyboard.press('Control+i');
}

const picture = (name) => page.screenshot({ path: path.join(pictures, name) });

/** Writes the settings in the editor, as a person does. */
async function set(more) {
  await command('Preferences: Open User Settings (JSON)');
  await shows('the settings', '.tabs-container', 'settings.json');
  await page.locator('.monaco-editor .view-lines').last().click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(JSON.stringify({ ...settings, ...more }));
  await page.keyboard.press('Control+s');
  await until('they are saved', async () => (await page.locator('.tab.dirty').count()) === 0);
  await command('View: Close All Editors');
  await open(false);
}
const step = (text) => console.log(`- ${text}`);

async function drive() {
  await page.waitForSelector('.monaco-workbench', { timeout: 60000 });
  const hints = '.monaco-editor .view-lines';

  await page.waitForSelector('.squiggly-error', { timeout: 60000 });
  await shows('a hint with a type', hints, '%y: Tensor[(n, 8, h, w), float32]');
  await shows('a hint with a result', hints, '-> Scores');
  await shows('lenses', '.codelens-decoration', 'run with random input');
  const colors = await page.locator('.view-line span[class^=mtk]').evaluateAll((all) => [
    ...new Set(all.map((e) => getComputedStyle(e).color)),
  ]);
  assert.ok(colors.length >= 5, `highlighting in only ${colors.length} colors`);
  step('colors, a squiggle, hints and lenses are there');

  await command('Problems: Focus on Problems View');
  await shows('the problem', '.markers-panel', 'the weight does not fit');
  await sleep(500);
  await picture('vscode.png');
  await command('View: Toggle Panel Visibility');
  step('the error stands among the problems; picture taken');

  await hover('16:32');
  await shows('the error in a hover', '.monaco-hover', 'the weight does not fit');
  await page.locator('.monaco-hover a', { hasText: 'RX0319' }).first().click();
  await shows('the explanation', '.tabs-container', 'RX0319.md');
  await shows('the explanation', '.view-lines', 'RX0319');
  await page.keyboard.press('Control+F4');
  await command('View: Close All Editors');
  await open();
  step('the code of an error leads to its explanation');

  await hover('6:12');
  await shows('a hover', '.monaco-hover', '%y: Tensor[(n, 8, h, w), float32]');
  await shows('where a dimension comes from', '.monaco-hover', 'is bound in line 4');
  await page.keyboard.press('Escape');
  step('a hover says a type and where its dimensions are bound');

  await set({ 'relax.inlayHints.enable': false, 'relax.codeLens.enable': false });
  await until('hints go when they are switched off', async () => !(await textOf(hints)).includes('-> Scores'));
  await until('lenses go', async () => (await page.locator('.codelens-decoration').count()) === 0);
  await set({});
  await shows('hints come back', hints, '-> Scores');
  step('settings count at once');

  await goTo('12:31');
  await page.keyboard.press('Delete');
  await page.keyboard.press('Delete');
  await page.keyboard.type('8');
  await until('the squiggle goes', async () => (await page.locator('.squiggly-error').count()) === 0);
  await shows('a hint', hints, '%scores: Tensor[(1, 10), float32]');
  await page.keyboard.press('Control+s');
  step('an edit that mends the error is seen');

  await page.locator('.codelens-decoration a', { hasText: 'run with random input' }).last().click();
  await shows('the output', '.part.panel .view-lines', 'Known(');
  step('a lens runs a function');

  await command('Relay: Show the Object Size Report');
  await shows('the report', '.part.panel .view-lines', 'in all');
  await command('View: Toggle Panel Visibility');
  step('the object size report is shown');

  await command('Relay: Show the Module after a Pass');
  await page.waitForSelector('.quick-input-widget input[placeholder^="Show the module"]');
  await page.keyboard.type('to-a-normal-form', { delay: 5 });
  await until('the pass in the list', async () => (await textOf('.quick-input-list .focused')).includes('to-a-normal-form'));
  await page.keyboard.press('Enter');
  await page.waitForSelector('.monaco-diff-editor .line-insert, .monaco-diff-editor .char-insert');
  await shows('the module after it', '.monaco-diff-editor .modified .view-lines', 'let %');
  await sleep(1000);
  await picture('vscode-after-pass.png');
  await command('View: Close All Editors');
  await open();
  step('the module after a pass is a diff; picture taken');

  await goTo('13:10');
  await page.keyboard.press('F2');
  const box = page.locator('.rename-box input');
  await box.fill('%maps');
  await box.press('Enter');
  await shows('the new name where it is used', '.view-lines', 'nn.global_avg_pool2d(%maps)');
  await page.keyboard.press('Control+s');
  step('renaming');

  await goTo('17:9');
  await page.keyboard.press('F12');
  await shows('the page of an operator', '.tabs-container', 'nn.softmax');
  await command('View: Close All Editors');
  await open();
  step('the definition of a built-in operator is a page');

  await command('Relay: Restart the Language Server');
  await sleep(500);
  await hover('6:12');
  await shows('a hover after the restart', '.monaco-hover', '%y: Tensor[(n, 8, h, w), float32]');
  await page.keyboard.press('Escape');
  step('the server can be started again');
}

async function open(lenses = true) {
  await page.keyboard.press('Control+p');
  await page.waitForSelector('.quick-input-widget input');
  await page.keyboard.type('network.relay', { delay: 5 });
  await until('the file in the list', async () => (await textOf('.quick-input-list .focused')).includes('network.relay'));
  await page.keyboard.press('Enter');
  await shows('the file', '.tabs-container', 'network.relay');
  if (lenses) await shows('lenses', '.codelens-decoration', 'run with random input');
}

fs.mkdirSync(path.dirname(settingsFile), { recursive: true });
fs.mkdirSync(folder, { recursive: true });
fs.mkdirSync(pictures, { recursive: true });
fs.copyFileSync(path.join(here, 'sample.relay'), path.join(folder, 'network.relay'));
fs.writeFileSync(settingsFile, JSON.stringify(settings));
execFileSync(process.execPath, [entry, ...dirs, '--install-extension', extension], { env, stdio: 'ignore' });
const port = await freePort();
const log = fs.openSync(path.join(work, 'server.log'), 'w');
const flags = ['--auth', 'none', '--disable-telemetry', '--disable-update-check', '--disable-workspace-trust'];
const server = spawn(process.execPath, [entry, ...dirs, ...flags, '--bind-addr', `127.0.0.1:${port}`], {
  env,
  stdio: ['ignore', log, log],
});
let browser;
try {
  await until('the editor listens', async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).status > 0);
  const quiet = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
  const still = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  browser = await chromium.launch({ executablePath: browserPath, args: [...quiet, ...still] });
  page = await browser.newPage({ viewport: { width: 1400, height: 760 } });
  const file = `vscode-remote://127.0.0.1:${port}${folder}/network.relay`;
  const payload = encodeURIComponent(JSON.stringify([['openFile', file]]));
  await page.goto(`http://127.0.0.1:${port}/?folder=${folder}&payload=${payload}`);
  await drive();
} catch (error) {
  if (page) await page.screenshot({ path: path.join(os.tmpdir(), 'relay-vscode-failed.png') });
  console.error(`${error.message}\nwhat was to be seen then: ${path.join(os.tmpdir(), 'relay-vscode-failed.png')}`);
  process.exitCode = 1;
} finally {
  await browser?.close();
  server.kill('SIGTERM');
  fs.rmSync(work, { recursive: true, force: true });
}

// The client: starts relax-lsp and gives its answers a place in the editor.
'use strict';

const path = require('node:path');
const { execFile } = require('node:child_process');
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

/** @type {LanguageClient | undefined} */
let client;
let output;

function settings() {
  const all = vscode.workspace.getConfiguration('relax');
  return {
    inlayHints: { enable: all.get('inlayHints.enable') },
    codeLens: { enable: all.get('codeLens.enable') },
    strictShapes: all.get('strictShapes'),
    runTool: all.get('runTool'),
  };
}

function serverPath() {
  return vscode.workspace.getConfiguration('relax').get('server.path') || 'relax-lsp';
}

/** A tool that stands beside the server. */
function tool(name) {
  const server = serverPath();
  return server.includes(path.sep) ? path.join(path.dirname(server), name) : name;
}

async function start() {
  const command = serverPath();
  const args = vscode.workspace.getConfiguration('relax').get('server.extraArgs') || [];
  const server = { command, args };
  client = new LanguageClient('relax', 'Relay', server, {
    documentSelector: ['file', 'untitled', 'relax'].map((scheme) => ({ language: 'relay', scheme })),
    initializationOptions: { ...settings(), virtualDocuments: true },
    synchronize: { configurationSection: 'relax' },
    outputChannel: output,
    middleware: {
      // What the lenses ask for is done here: it needs a place to show texts.
      executeCommand: async (name, args, next) => {
        if (name === 'relax.showAfter') return diffAfter(args[0]);
        if (name === 'relax.run') return run(args[0], args[1]);
        if (name === 'relax.explain') return show(vscode.Uri.parse(`relax:explain/${args[0]}.md`));
        return next(name, args);
      },
    },
  });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`Relay: ${command} does not start (${error.message}). Set relax.server.path.`);
  }
}

async function restart() {
  if (client) await client.stop().catch(() => {});
  await start();
}

async function show(uri) {
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { preview: true });
}

function activeDocument() {
  const editor = vscode.window.activeTextEditor;
  return editor && editor.document.languageId === 'relay' ? editor.document.uri.toString() : undefined;
}

function ask(command, ...args) {
  return client.sendRequest('workspace/executeCommand', { command, arguments: args });
}

async function diffAfter(document) {
  const uri = document || activeDocument();
  if (!uri) return;
  const passes = await ask('relax.passes');
  const pass = await vscode.window.showQuickPick(passes, { placeHolder: 'Show the module after…' });
  if (!pass) return;
  try {
    await ask('relax.showAfter', uri, null, pass);
  } catch (error) {
    // What does not check has no module after a pass: the reason, not a comparison with nothing.
    vscode.window.showErrorMessage(`Relay: ${error.message}`);
    return;
  }
  const after = vscode.Uri.from({ scheme: 'relax', path: `after/${pass}.relay`, query: uri });
  await vscode.commands.executeCommand('vscode.diff', vscode.Uri.parse(uri), after, `${path.basename(uri)} → ${pass}`);
}

async function run(document, name) {
  const uri = document || activeDocument();
  if (!uri) return;
  output.show(true);
  output.appendLine(`> relax-run --random 0${name ? ` --entry ${name}` : ''} ${uri}`);
  try {
    const done = await ask('relax.run', uri, name ?? null);
    output.appendLine(done.text);
  } catch (error) {
    output.appendLine(error.message);
  }
}

function sizeReport() {
  const uri = activeDocument();
  if (!uri) return;
  const text = vscode.window.activeTextEditor.document.getText();
  const args = ['-', '--size-report', '-o', process.platform === 'win32' ? 'NUL' : '/dev/null'];
  output.show(true);
  const child = execFile(tool('relaxc'), args, (error, stdout, stderr) => {
    output.appendLine(stderr || stdout || (error ? error.message : ''));
  });
  child.stdin.end(text);
}

/** Folds what the server calls data: the metadata section and large constants. */
async function foldData(document) {
  if (document.languageId !== 'relay' || !vscode.workspace.getConfiguration('relax').get('foldOnOpen')) return;
  const ranges = await vscode.commands.executeCommand('vscode.executeFoldingRangeProvider', document.uri);
  const lines = (ranges || []).filter((r) => r.kind === vscode.FoldingRangeKind.Region).map((r) => r.start);
  if (lines.length > 0) await vscode.commands.executeCommand('editor.fold', { selectionLines: lines, levels: 1 });
}

async function activate(context) {
  output = vscode.window.createOutputChannel('Relay');
  context.subscriptions.push(output);
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider('relax', {
      provideTextDocumentContent: async (uri) => {
        try {
          const found = await client.sendRequest('workspace/textDocumentContent', { uri: uri.toString(true) });
          return found.text;
        } catch (error) {
          return error.message;
        }
      },
    }),
    vscode.commands.registerCommand('relax.restartServer', restart),
    vscode.commands.registerCommand('relax.runFunction', () => run()),
    vscode.commands.registerCommand('relax.diffAfter', () => diffAfter()),
    vscode.commands.registerCommand('relax.sizeReport', sizeReport),
  );
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration('relax.server')) restart();
    }),
  );
  await start();
  const folded = new Set();
  const foldOnce = (editor) => {
    if (!editor || folded.has(editor.document.uri.toString())) return;
    folded.add(editor.document.uri.toString());
    foldData(editor.document).catch(() => {});
  };
  foldOnce(vscode.window.activeTextEditor);
  context.subscriptions.push(vscode.window.onDidChangeActiveTextEditor(foldOnce));
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };

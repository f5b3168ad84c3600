// The client: starts relax-lsp and gives its answers a place in the editor.
'use strict';

const path = require('node:path');
const { execFile } = require('node:child_process');
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');
const { find, buildable } = require('./find.js');

/** @type {LanguageClient | undefined} */
let client;
let output;
let extension;

function settings() {
  const all = vscode.workspace.getConfiguration('relax');
  return {
    inlayHints: { enable: all.get('inlayHints.enable') },
    codeLens: { enable: all.get('codeLens.enable') },
    strictShapes: all.get('strictShapes'),
    runTool: all.get('runTool'),
  };
}

/** The open folders whose programs may be started. */
function folders() {
  if (!vscode.workspace.isTrusted) return [];
  return (vscode.workspace.workspaceFolders || []).map((f) => f.uri.fsPath);
}

function serverPath() {
  return find(vscode.workspace.getConfiguration('relax').get('server.path'), folders());
}

/** A tool that stands beside the server. */
function tool(name) {
  const server = serverPath();
  return server ? path.join(path.dirname(server), name) : name;
}

/** There is no server: what can be done about that. */
async function offer() {
  const build = buildable(folders());
  const choices = [...(build ? ['Build It'] : []), 'Choose It…', 'How to Get It'];
  const said = 'Relay: the language server `relax-lsp` was not found; without it texts are only coloured.';
  const choice = await vscode.window.showWarningMessage(said, ...choices);
  if (choice === 'Build It') {
    const shell = new vscode.ShellExecution('cargo build --release -p relax-lsp -p relax-cli', { cwd: build });
    const task = new vscode.Task({ type: 'relax' }, vscode.TaskScope.Workspace, 'build the server', 'relax', shell);
    const running = await vscode.tasks.executeTask(task);
    const ended = vscode.tasks.onDidEndTaskProcess((e) => {
      if (e.execution !== running) return;
      ended.dispose();
      if (e.exitCode === 0) restart();
    });
  } else if (choice === 'Choose It…') {
    const chosen = await vscode.window.showOpenDialog({ canSelectMany: false, title: 'The program relax-lsp' });
    // The new setting starts it.
    const settings = vscode.workspace.getConfiguration('relax');
    if (chosen) await settings.update('server.path', chosen[0].fsPath, vscode.ConfigurationTarget.Global);
  } else if (choice === 'How to Get It') {
    const readme = vscode.Uri.joinPath(extension.extensionUri, 'README.md');
    await vscode.commands.executeCommand('markdown.showPreview', readme);
  }
}

async function start() {
  const command = serverPath();
  if (!command) {
    client = undefined;
    offer().catch(() => {});
    return;
  }
  const args = vscode.workspace.getConfiguration('relax').get('server.extraArgs') || [];
  const server = { command, args };
  client = new LanguageClient('relax', 'Relay', server, {
    documentSelector: ['relay', 'tvmscript'].flatMap((language) =>
      ['file', 'untitled', 'relax'].map((scheme) => ({ language, scheme })),
    ),
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
  if (!client) throw new Error('the language server is not running');
  return client.sendRequest('workspace/executeCommand', { command, arguments: args });
}

async function diffAfter(document) {
  const uri = document || activeDocument();
  if (!uri) return;
  let pass;
  try {
    const passes = await ask('relax.passes');
    pass = await vscode.window.showQuickPick(passes, { placeHolder: 'Show the module after…' });
    if (!pass) return;
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
  if (!vscode.workspace.isTrusted) {
    vscode.window.showWarningMessage('Relay: functions of folders that are not trusted are not run.');
    return;
  }
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
  extension = context;
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
  // A server that was built in an open folder may be used from now on.
  context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(() => (client ? undefined : start())));
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

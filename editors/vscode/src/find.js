// Where the language server is: what the settings say, then the places where it is usually built or installed.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const NAME = process.platform === 'win32' ? 'relax-lsp.exe' : 'relax-lsp';

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The folders in which a name is looked for, in order: builds of the open folders, Cargo's, the `PATH`. */
function places(folders, env) {
  const home = env.HOME || env.USERPROFILE || os.homedir();
  return [
    ...folders.flatMap((f) => [path.join(f, 'target', 'release'), path.join(f, 'target', 'debug')]),
    path.join(env.CARGO_HOME || path.join(home, '.cargo'), 'bin'),
    ...(env.PATH || '').split(path.delimiter).filter(Boolean),
  ];
}

/**
 * The server's path; undefined where there is none. A path in the settings is meant as it stands, relative to the
 * first of the open folders; a name is looked for. The folders given are those whose programs may be started: none
 * where the user does not trust them, since whoever made a folder chose what lies in its `target`.
 */
function find(setting, folders, env = process.env) {
  const wanted = setting || 'relax-lsp';
  if (/[\\/]/.test(wanted)) {
    const home = wanted.startsWith('~') ? path.join(env.HOME || os.homedir(), wanted.slice(1)) : wanted;
    if (!path.isAbsolute(home) && folders.length === 0) return undefined;
    const file = path.resolve(folders[0] || '.', home);
    return isProgram(file) ? file : undefined;
  }
  const name = wanted === 'relax-lsp' ? NAME : wanted;
  return places(folders, env)
    .map((dir) => path.join(dir, name))
    .find(isProgram);
}

/** The open folder that the server can be built in: the project's own repository. */
function buildable(folders) {
  return folders.find((f) => fs.existsSync(path.join(f, 'crates', 'lsp', 'Cargo.toml')));
}

module.exports = { find, places, buildable, NAME };

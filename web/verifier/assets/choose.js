// On /verify: the file that checks a document, loaded for the first of its kind.

import { kindOf } from './kind.js';
import { startEngine } from './start.js';

const engines = {};

/** The engine for a kind of document, or what says of every document that there is none. */
async function engine(kind) {
  try {
    return await (engines[kind] ??= startEngine(document.querySelector(`a[data-checks="${kind}"]`).href));
  } catch {
    engines[kind] = null;
    return () => ({ rows: [], why: 'What checks it could not be loaded' });
  }
}

/** Checks a document. What the file for its kind refuses, the file for any document reads: it knows more forms, and names the line. */
export async function check(text, onRow) {
  const kind = kindOf(text), result = await (await engine(kind))(text, onRow);
  return result.rows.length || kind === 'any' ? result : (await engine('any'))(text, onRow);
}

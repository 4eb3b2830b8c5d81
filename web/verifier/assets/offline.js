// In the offline page: the verifier is a part of the file.

import { makeEngine } from './engine.js';

const engine = await makeEngine((hear) => ({ send: embeddedVerifier.serve(hear), where: 'page' }));

/** Checks a document. */
export const check = (text, onRow) => engine(text, onRow);

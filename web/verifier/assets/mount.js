// On the page of one record: checks what the page embeds, by itself.

import { makePanel } from './panel.js';
import { startEngine } from './start.js';

// The checks begin when the page has all that it loads, so that the requests counted are those of the checks.
if (document.readyState !== 'complete') await new Promise((done) => { addEventListener('load', done, { once: true }); });
await document.fonts.ready;

const root = document.querySelector('[data-verify]');
await makePanel(root, await startEngine(root.querySelector('a[data-checks]').href)).show(document.getElementById('record').textContent, root.dataset.file);

// On the page of one record: checks what the page embeds, by itself.

import { startEngine } from './engine.js';
import { makePanel } from './panel.js';

// The checks begin when the page has all that it loads, so that the requests counted are those of the checks.
if (document.readyState !== 'complete') await new Promise((done) => { addEventListener('load', done, { once: true }); });
await document.fonts.ready;

const root = document.querySelector('[data-verify]'), url = root.dataset.worker;
await makePanel(root, await startEngine(url, () => import(url))).show(document.getElementById('record').textContent, root.dataset.file);

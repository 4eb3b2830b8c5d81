// On /verify and in the offline page: takes a document by drop, paste, file or fragment. Nothing leaves the page.

import { startEngine } from './engine.js';
import { makePanel } from './panel.js';
import { make, visible } from './words.js';

const MAX_BYTES = 10 << 20;
const at = (selector) => document.querySelector(selector);
const root = at('[data-verify]'), box = at('#document'), error = at('[data-error]'), opened = at('[data-opened]'), zone = at('[data-drop]');
const url = root.dataset.worker;
const panel = makePanel(root, await startEngine(url, async () => globalThis.embeddedVerifier ?? import(url)), lay);

/** Puts the rows of a result into the list, in the order of the template. */
function lay(rows) {
  if (rows.every((r) => panel.row(r.id)) && panel.all('.checks > li').length === rows.length) return;
  const every = panel.one('template[data-rows]').content.cloneNode(true), ids = rows.map((r) => r.id);
  for (const li of every.querySelectorAll('[data-check]')) if (!ids.includes(li.dataset.check)) li.remove();
  panel.one('.checks').replaceChildren(every);
  panel.settle();
}

/** Forgets the document. */
function clear() {
  panel.header('idle', 'Not checked yet', 'Waiting for a document');
  panel.one('.checks').replaceChildren();
  panel.clean?.();
  for (const e of [panel.one('.forge'), panel.one('[data-again]'), panel.one('[data-save]').closest('li')]) e.hidden = true;
}

/** Checks a document, given as text or bytes, and shows it or says what is wrong with it. */
async function take(input, name = 'document.json') {
  complain('');
  if ((input.byteLength ?? input.length) > MAX_BYTES) return complain(`This is over ${MAX_BYTES >> 20} MB; use karatum verify.`);
  let text = input;
  if (typeof input !== 'string') {
    try { text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(input); } catch { return complain('This is not UTF-8 text.'); }
  }
  if (!text.trim()) return complain('There is nothing to check yet. Drop, choose or paste a JSON document.');
  if (box.value !== text) box.value = text;
  const result = await panel.show(text, name);
  if (!result) return null;
  if (!result.rows.length) {
    clear();
    opened.hidden = true;
    return complain(`${visible(result.why)}.`);
  }
  for (const shown of panel.all('code[data-file], span[data-file]')) shown.textContent = name;
  describe(JSON.parse(text), result);
  return result;
}

function complain(text) {
  error.textContent = text;
  error.hidden = !text;
  box.setAttribute('aria-invalid', String(Boolean(text)));
  return null;
}

/** Shows what was checked: a verdict about something unseen would be worth little. */
function describe(v, { kinds, unchecked }) {
  const d = kinds.includes('disclosure') ? v.disclosure ?? v : null;
  const rows = [['Parts', kinds.join(', ')]];
  if (d?.step) {
    rows.push(['Step', `${d.step.seq} of stream ${d.step.stream}`], ['Agent', d.step.agent, 'mono'], ['Says', [d.step.kind, d.step.name, d.step.status].filter(Boolean).join(', ')]);
    for (const [field, { value }] of Object.entries(d.reveal)) rows.push([`Opened ${field}`, JSON.stringify(value, null, 2), 'mono']);
  }
  if (unchecked.length) rows.push(['Not checked', `${unchecked.join(', ')}: only the node’s word`]);
  opened.querySelector('dl').replaceChildren(...rows.map(([k, t, look = '']) => make('div', {}, make('dt', {}, visible(k)), make('dd', {}, make('bdi', { class: `name ${look}` }, visible(t).slice(0, 20000))))));
  opened.hidden = false;
}

async function fromFile(file) {
  if (file.size > MAX_BYTES) return complain(`This file is over ${MAX_BYTES >> 20} MB; use karatum verify.`);
  return take(new Uint8Array(await file.arrayBuffer()), file.name);
}

/** The bytes of a fragment: base64url, or JSON as it is or percent-encoded. Throws on anything else. */
function fromFragment(fragment) {
  if (/^(%7b|\{)/i.test(fragment)) return new TextEncoder().encode(decodeURIComponent(fragment));
  return Uint8Array.from(atob(fragment.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
}

async function fromAddress() {
  const fragment = location.hash.slice(1);
  if (!fragment) return null;
  try { return await take(fromFragment(fragment)); } catch { return complain('The part of the address after # is no document: it must be base64url or JSON.'); }
}

at('[data-check-form]').addEventListener('submit', (e) => { e.preventDefault(); take(box.value); });
at('#file').addEventListener('change', (e) => { if (e.target.files[0]) fromFile(e.target.files[0]); e.target.value = ''; });
for (const kind of ['dragover', 'dragleave', 'drop']) {
  document.addEventListener(kind, (e) => {
    e.preventDefault();
    zone.classList.toggle('over', kind === 'dragover');
    const file = kind === 'drop' && e.dataTransfer.files[0];
    if (kind === 'drop' && e.dataTransfer.files.length > 1) complain('One file at a time, please; parts can be joined in one as {"disclosure": …, "proof": …}.');
    else if (file) fromFile(file);
    else if (kind === 'drop' && e.dataTransfer.getData('text')) take(e.dataTransfer.getData('text'));
  });
}
addEventListener('hashchange', fromAddress);
clear();
await fromAddress();
root.dataset.ready = '';

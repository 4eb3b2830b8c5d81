// The verify panel: one row a check, a header that says what was measured, and the forge.

import { rpcAddress } from './engine.js';
import { cannotForge, chipText, forge } from './forge.js';
import { differences, hash, make, plural, says, sentence, visible } from './words.js';

const STATE = { wait: 'not run yet', run: 'running', pass: 'passed', fail: 'failed', skip: 'not run', partial: 'passed in part' };
const MARK = { pass: 'M14 24l6.5 6.5L33 17', fail: 'M16 16l14 14M30 16L16 30', partial: 'M23 13v13M23 32v.5', idle: 'M15 23h16' };
const inMs = (ms) => ms < 1 ? '<1 ms' : `${Math.round(ms)} ms`;
// What the agent's signature covers; the rest is the node's and the chain's doing.
const AGENTS = ['reveal', 'step', 'place', 'path', 'links', 'signature', 'batch'];

export class Panel {
  #root; #check; #rpc; #runs = 0; #text = ''; #file = 'record.json';

  constructor(root, check) {
    this.#root = root;
    this.#check = check;
    this.#on('[data-again]', 'click', () => this.show(this.#text));
    this.#rpc = this.#one('.rpc');
    this.#rpc?.addEventListener('submit', (e) => { e.preventDefault(); this.#ask(); });
    this.#settle();
    for (const chip of this.#all('[data-forge]')) chip.addEventListener('click', () => this.#forge(chip.dataset.forge));
    for (const button of this.#all('[data-take]')) {
      button.hidden = false;
      button.addEventListener('click', () => copy(button));
    }
  }

  #one(selector) { return this.#root.querySelector(selector); }
  #all(selector) { return [...this.#root.querySelectorAll(selector)]; }
  #on(selector, event, listener) { this.#one(selector)?.addEventListener(event, listener); }
  #row(id) { return this.#one(`.checks [data-check="${id}"]`); }

  /** Checks a document and shows it. Resolves to the result; one with `error` is left to the caller to show. */
  async show(text, file = this.#file) {
    this.#text = text;
    this.#file = file;
    this.#press('');
    const result = await this.#run(text);
    if (!result || result.error) return result;
    this.#one('[data-again]').hidden = false;
    this.#offer(result);
    return result;
  }

  /** Forgets the document and says what the panel waits for. */
  clear(sub) {
    this.#runs++;
    this.#seal('idle');
    this.#title('Not checked yet', sub);
    this.#one('.checks').replaceChildren();
    this.#press('');
    for (const e of [this.#one('.forge'), this.#one('[data-again]'), this.#one('[data-save]').closest('li')]) e.hidden = true;
  }

  async #run(text, { rpc = '', attester, forged = false } = {}) {
    const run = ++this.#runs;
    this.#root.dataset.state = 'running';
    this.#title('Checking…', '');
    for (const li of this.#all('.checks > li')) paint(li, { state: 'run' });
    const result = await this.#check(text, { rpc, attester, onRow: (row) => { if (run === this.#runs && this.#row(row.id)) paint(this.#row(row.id), row); } });
    if (run !== this.#runs) return null; // another run began meanwhile
    if (result.error) this.#refuse(result.error);
    else this.#report(result, JSON.parse(text), forged);
    return result;
  }

  #title(title, sub) {
    this.#one('[data-title]').textContent = title;
    this.#one('[data-sub]').textContent = sub;
  }

  #seal(state) {
    this.#root.dataset.state = state;
    this.#one('[data-mark]').setAttribute('d', MARK[state] ?? MARK.idle);
  }

  #refuse({ field, message, line, column }) {
    this.#seal('fail');
    this.#title('This cannot be checked', [line ? `Line ${line}, column ${column}` : '', field ? visible(field) : '', visible(message)].filter(Boolean).join(': '));
    for (const li of this.#all('.checks > li')) paint(li, { state: 'wait' });
  }

  #report({ rows, ms, requests, where }, document, forged) {
    this.#lay(rows);
    const evidence = document.evidence ?? document.error?.details?.evidence ?? (document.type ? document : null);
    for (const row of rows) paint(this.#row(row.id), row, row.id === 'contradiction' && row.state === 'pass' && evidence ? contradiction(evidence) : says(row));
    const count = (s) => rows.filter((r) => r.state === s).length, failed = count('fail'), passed = count('pass'), partial = count('partial');
    const how = `${where === 'blocked' ? 'in this page, for workers are blocked here, ' : ''}in ${inMs(ms)}, with ${plural(requests, 'request')}.`;
    this.#seal(failed ? 'fail' : partial ? 'partial' : passed ? 'pass' : 'idle');
    if (failed) {
      const signed = rows.some((r) => r.state === 'fail' && AGENTS.includes(r.id));
      return this.#title(`Rejected: ${failed} of ${rows.length} ${rows.length === 1 ? 'check' : 'checks'} failed`, `${forged ? 'Caught' : 'Found'} ${how}${signed ? ' The agent did not sign this.' : ''}`);
    }
    const proven = rows.every((r) => ['a', 'b', 'contradiction'].includes(r.id));
    const title = proven ? 'Proven: the agent signed both' : passed === rows.length ? `All ${passed} checks passed` : `${passed} of ${rows.length} checks passed${partial ? `, ${partial} in part` : ''}`;
    return this.#title(title, `Done by your browser ${how}`);
  }

  /** Puts the rows of this result into the list, in the order of the template. */
  #lay(rows) {
    const template = this.#one('template[data-rows]');
    if (!template || rows.every((r) => this.#row(r.id)) && this.#all('.checks > li').length === rows.length) return;
    const all = template.content.cloneNode(true), ids = rows.map((r) => r.id);
    for (const li of all.querySelectorAll('[data-check]')) if (!ids.includes(li.dataset.check)) li.remove();
    this.#one('.checks').replaceChildren(all);
    this.#settle();
  }

  /** The form that asks an RPC stands in the row that it is about. */
  #settle() { if (this.#rpc) this.#row('anchor')?.append(this.#rpc); }

  /** Opens what this document allows: an RPC to ask, a forge, ways to take it elsewhere. */
  #offer({ rows }) {
    const document = JSON.parse(this.#text), has = (id) => rows.some((r) => r.id === id);
    const anchor = [document.proof, document.anchoring, document].find((v) => v?.anchor)?.anchor, rpc = this.#rpc, forgery = this.#one('.forge');
    if (rpc) {
      rpc.hidden = !anchor;
      const known = anchor && rpc.querySelector(`datalist option[data-chain="${Number(anchor.chainId)}"]`), input = rpc.querySelector('[name="rpc"]');
      if (known && !input.value) input.value = known.value;
    }
    if (forgery) {
      forgery.hidden = !has('reveal');
      if (has('reveal')) for (const chip of this.#all('[data-forge]:not(.reset)')) {
        const why = cannotForge(chip.dataset.forge, this.#text);
        chip.disabled = why !== '';
        chip.title = why;
        chip.textContent = chipText(chip.dataset.forge, this.#text) ?? chip.textContent;
      }
    }
    this.#takeaway();
  }

  /** Links that carry the document away: a file, and the address of the reader's own node. */
  #takeaway() {
    const save = this.#one('[data-save]'), local = this.#one('[data-local]');
    if (save) {
      if (save.href.startsWith('blob:')) URL.revokeObjectURL(save.href);
      save.href = URL.createObjectURL(new Blob([this.#text], { type: 'application/json' }));
      save.download = this.#file;
      save.closest('li').hidden = false;
    }
    for (const name of this.#all('[data-file]')) name.textContent = this.#file;
    for (const button of this.#all('[data-take]')) button.dataset.take = button.parentElement.querySelector('.cmd-text').textContent;
    if (local) {
      const small = this.#text.length <= MAX_FRAGMENT;
      local.closest('li').hidden = !small;
      if (small) local.href = local.dataset.local + toFragment(this.#text);
    }
  }

  #ask() {
    const [input, who, wrong] = ['[name="rpc"]', '[name="attester"]', '[data-wrong]'].map((s) => this.#rpc.querySelector(s)), attester = who.value.trim().toLowerCase();
    const rpc = rpcAddress(input.value), bad = !rpc ? 'The address must begin with https://, or with http://localhost or http://127.0.0.1.'
      : attester && !/^0x[0-9a-f]{40}$/.test(attester) ? 'The attester must be an address: 0x and 40 hex digits.' : '';
    wrong.textContent = bad;
    wrong.hidden = !bad;
    if (bad) return (rpc ? who : input).focus();
    this.#press('');
    return this.#run(this.#text, { rpc, attester: attester || undefined });
  }

  async #forge(kind) {
    if (kind === 'none') return this.show(this.#text);
    const copied = forge(kind, this.#text);
    if (copied.why) return null;
    this.#press(kind);
    this.#one('[data-change]').replaceChildren(make('code', {}, visible(copied.path)), ' is now ', make('mark', { class: 'diff' }, ...value(copied.now, copied.was)), ', was ', make('span', { class: 'was' }, ...value(copied.was, copied.now)));
    const result = await this.#run(copied.text, { forged: true });
    if (result) this.#one('[data-caught]').textContent = `Caught by: ${result.rows.filter((r) => r.state === 'fail').map((r) => this.#row(r.id).querySelector('h3').firstChild.textContent.toLowerCase()).join('; ')}.`;
    return result;
  }

  #press(kind) {
    for (const chip of this.#all('[data-forge]:not(.reset)')) chip.setAttribute('aria-pressed', String(chip.dataset.forge === kind));
    for (const e of this.#all('[data-change], [data-caught]')) e.replaceChildren();
  }
}

/** Shows a row's state and what it computed. */
function paint(li, row, text = row.ms === undefined ? [] : says(row)) {
  li.dataset.s = row.state;
  li.querySelector('.state').textContent = STATE[row.state];
  li.querySelector('.ms').textContent = row.ms === undefined ? '' : row.state === 'skip' ? 'not run' : inMs(row.ms);
  li.querySelector('.ev').replaceChildren(...text);
}

/** Old and new value beside each other, cut to where they differ. */
function value(v, other) {
  if (Array.isArray(v)) return [plural(v.length, 'hash', 'hashes')];
  const s = visible(typeof v === 'string' ? v : JSON.stringify(v)), o = String(other);
  if (s.length <= 48) return [s];
  let at = 0;
  while (at < s.length && s[at] === o[at]) at++;
  const from = Math.max(at - 8, 0), to = Math.min(from + 24, s.length);
  return [`${from ? '…' : ''}${s.slice(from, to)}${to < s.length ? '…' : ''}`];
}

function contradiction(evidence) {
  const table = differences(evidence).map(({ field, a, b }) => make('div', {}, make('dt', {}, field), make('dd', {}, make('mark', { class: 'diff' }, ...shown(a)), ' and ', make('mark', { class: 'diff' }, ...shown(b)))));
  return [make('p', { class: 'contra' }, sentence(evidence)), make('dl', { class: 'differ' }, ...table)];
}

const shown = (v) => /^0x[0-9a-f]{64}$/.test(v) ? [hash(v)] : [visible(v)];

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.take);
    button.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(button.parentElement.querySelector('.cmd-text'));
    button.textContent = 'Selected';
  }
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
}

const MAX_FRAGMENT = 1 << 20;

/** A document as a URL fragment: base64url of its UTF-8. */
export function toFragment(text) {
  let binary = '';
  for (const b of new TextEncoder().encode(text)) binary += String.fromCharCode(b);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** The bytes of a fragment: base64url, or JSON as it is or percent-encoded. Throws on anything else. */
export function fromFragment(fragment) {
  if (/^(%7b|\{)/i.test(fragment)) return new TextEncoder().encode(decodeURIComponent(fragment));
  return Uint8Array.from(atob(fragment.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
}

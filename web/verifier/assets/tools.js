// What the panel does at the reader's word, forges a copy and hands the document out, and what it says of a failure.

import { cannotForge, forge } from './forge.js';
import { hash, make, plural, visible } from './words.js';

const MAX_FRAGMENT = 1 << 20;

// What the agent's signature does not cover: the node's and the chain's doing.
const OTHERS = ['epoch', 'anchor', 'receipt', 'same', 'a', 'b', 'contradiction'];

/** What a failed row says, where the reason alone would say too little. */
const FAILS = {
  reveal: (r) => r.rows?.every((o) => o.ok) ? ['the opened claim is not well formed'] : r.rows?.filter((o) => !o.ok).flatMap((o, i) => [i ? '; ' : '', make('b', {}, visible(o.field)), ' hashes to ', hash(o.got),
    ...o.want ? [', the record committed to ', hash(o.want)] : [', which the record does not seal']]),
  signature: (r) => r.got && ['recovers ', hash(r.got), ', the agent is ', hash(r.want)],
  path: (r) => r.got && ['leads to ', hash(r.got), ', the agent signed ', hash(r.want)],
};

/** Joins the tools to a panel. */
export function equip(panel) {
  const { one, all } = panel, form = one('.rpc'), save = one('[data-save]'), local = one('[data-local]');
  panel.fails = FAILS;
  panel.unsigned = (failed) => failed.every((r) => OTHERS.includes(r.id)) ? '' : ' The agent did not sign this.';
  const chips = () => all('[data-forge]:not(.reset)');

  /** Called for each document on show: what there is to forge, which RPC is known to serve the anchor's chain, where the document goes. */
  panel.offer = () => {
    takeaway();
    const document = JSON.parse(panel.text || '{}'), { anchor } = document.proof ?? document;
    const known = anchor && form?.querySelector(`option[data-chain="${Number(anchor.chainId)}"]`), input = form?.querySelector('[name="rpc"]');
    if (known && !input.value) input.value = known.value;
    if (panel.row('reveal')) for (const chip of chips()) chip.disabled = Boolean(chip.title = cannotForge(chip.dataset.forge, panel.text));
  };

  panel.clean = (kind) => {
    for (const chip of chips()) chip.setAttribute('aria-pressed', String(chip.dataset.forge === kind));
    for (const e of all('[data-change], [data-caught]')) e.replaceChildren();
  };

  async function forgery(kind) {
    if (kind === 'none') return panel.show(panel.text);
    const copied = forge(kind, panel.text);
    if (copied.why) return null;
    panel.clean(kind);
    one('[data-change]').replaceChildren(make('code', {}, visible(copied.path)), ' is now ', make('mark', { class: 'diff' }, cut(copied.now, copied.was)), ', was ', make('span', { class: 'was' }, cut(copied.was, copied.now)));
    const result = await panel.run(copied.text, 'Caught');
    if (result) one('[data-caught]').textContent = `Caught by: ${result.rows.filter((r) => r.state === 'fail').map((r) => panel.row(r.id).querySelector('h3').firstChild.textContent.toLowerCase()).join('; ')}.`;
    return result;
  }

  /** Links that carry the document away: a file, and the address of the reader's own node. */
  function takeaway() {
    const small = panel.text.length <= MAX_FRAGMENT;
    if (save.href.startsWith('blob:')) URL.revokeObjectURL(save.href);
    save.href = URL.createObjectURL(new Blob([panel.text], { type: 'application/json' }));
    save.download = panel.file;
    if (!local) return;
    local.closest('li').hidden = !small;
    if (small) local.href = local.dataset.local + toFragment(panel.text);
  }

  for (const chip of all('[data-forge]')) chip.addEventListener('click', () => forgery(chip.dataset.forge));
  for (const button of all('[data-take]')) button.addEventListener('click', () => copy(button));
  form?.addEventListener('submit', async (e) => { e.preventDefault(); (await import('./ask.js')).ask(panel, form); });
  panel.offer();
}

async function copy(button) {
  const text = button.parentElement.querySelector('.cmd-text');
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(text);
    button.textContent = 'Selected';
  }
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
}

/** A document as a URL fragment: base64url of its UTF-8. */
function toFragment(text) {
  let binary = '';
  for (const b of new TextEncoder().encode(text)) binary += String.fromCharCode(b);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** Old and new value beside each other, cut to where they differ. */
function cut(v, other) {
  if (Array.isArray(v)) return plural(v.length, 'hash', 'hashes');
  const s = visible(typeof v === 'string' ? v : JSON.stringify(v)), o = String(other);
  if (s.length <= 48) return s;
  let at = 0;
  while (at < s.length && s[at] === o[at]) at++;
  const from = Math.max(at - 8, 0), to = Math.min(from + 24, s.length);
  return `${from ? '…' : ''}${s.slice(from, to)}${to < s.length ? '…' : ''}`;
}

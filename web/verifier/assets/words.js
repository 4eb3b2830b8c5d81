// What the rows say.

/** Shows what hides or turns text around: control, format and separator characters become their code points. */
export const visible = (text) => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => c === '\n' || c === '\t' ? c : `\\u{${c.codePointAt(0).toString(16).padStart(4, '0')}}`);

/** An element with attributes and children; strings become text. */
export function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/** A hash, shortened with the whole in its title. */
export function hash(v) {
  const s = visible(v);
  return make('code', { title: s }, s.length > 22 ? `${s.slice(0, 10)}…${s.slice(-8)}` : s);
}

export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
export const scheme = (s) => s === 'eip191' ? 'EIP-191' : 'EIP-712';

/** What a passed row computed, as nodes. */
export const SAYS = {
  reveal: (r) => [`${r.rows.length} opened, ${r.sealed.length ? `${r.sealed.length} still sealed (${r.sealed.join(', ')})` : 'none left sealed'}`,
    r.claim === 'UNSUPPORTED_CLAIM' ? '; a claim of a kind that nobody here interprets' : ''],
  step: (r) => [`${r.bytes} bytes of canonical JSON → `, hash(r.got)],
  place: (r) => [`step ${r.seq} is leaf ${r.seq - r.fromSeq + 1} of ${r.toSeq - r.fromSeq + 1} (steps ${r.fromSeq} to ${r.toSeq})`],
  path: (r) => [`${plural(r.path.length - 1, 'level')} → `, hash(r.got)],
  links: (r) => [...!r.first ? [r.follows ? `follows step ${r.seq - 1}, which stands beside it in the signed tree` : ''] : /^0x0+$/.test(r.prevHead) ? ['first of its stream'] : ['first of its batch, after ', hash(r.prevHead)],
    ...r.last ? [`${r.first || r.follows ? '; ' : ''}last of its batch, the signed head is `, hash(r.head)] : []],
  signature: (r) => [`${scheme(r.scheme)} recovers `, hash(r.got)],
  epoch: (r) => [`${plural(r.size, 'batch', 'batches')} → `, hash(r.got)],
  anchor: (r) => [`block ${r.block} of chain ${r.chainId}, attested by `, hash(r.attester)],
};

/** What a row computed or why it failed or was left out, as nodes. `fails` says more of a failure than its reason, by row, where the tools are there. */
export function says(row, document, fails) {
  const { id, state, why } = row;
  if (state === 'pass') return SAYS[id](row, document);
  if (state === 'partial') return [...SAYS[id](row), ', but ', visible(why)];
  return state === 'fail' && fails?.[id]?.(row) || [why === 'no anchor is given' ? 'not anchored yet, or the proof is not part of this document' : visible(why)];
}

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

/** What a passed row computed, as nodes, by row; each kind of document brings its own. */
export const SAYS = {};

/** What a row computed or why it failed or was left out, as nodes. `fails` says more of a failure than its reason, by row, where the tools are there. */
export function says(row, document, fails) {
  const { id, state, why } = row;
  if (state === 'pass') return SAYS[id](row, document);
  if (state === 'partial') return [...SAYS[id](row), ', but ', visible(why)];
  return state === 'fail' && fails?.[id]?.(row) || [why === 'no anchor is given' ? 'not anchored yet, or the proof is not part of this document' : visible(why)];
}

// What the rows say.

/** Shows what hides or turns text around: control, format and separator characters become their code points. */
export function visible(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => c === '\n' || c === '\t' ? c : `\\u{${c.codePointAt(0).toString(16).padStart(4, '0')}}`);
}

/** An element with attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
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
const scheme = (s) => s === 'eip191' ? 'EIP-191' : 'EIP-712';
const utc = (seconds) => Number.isSafeInteger(seconds) && seconds < 253402300800 ? new Date(seconds * 1000).toISOString().replace('T', ' ').replace('.000Z', ' UTC') : String(seconds);

const SAYS = {
  reveal: (r) => r.rows.length ? [`${r.rows.length} opened`, r.sealed.length ? `, ${r.sealed.length} still sealed (${r.sealed.join(', ')})` : ', none left sealed',
    r.claim === 'UNSUPPORTED_CLAIM' ? '; a claim of a kind that nobody here interprets' : ''] : [],
  step: (r) => [`${r.bytes} bytes of canonical JSON → `, hash(r.got)],
  place: (r) => [`step ${r.seq} is leaf ${r.seq - r.fromSeq + 1} of ${r.toSeq - r.fromSeq + 1} (steps ${r.fromSeq} to ${r.toSeq})`],
  path: (r) => [`${plural(r.path.length - 1, 'level')} → `, hash(r.got)],
  links: (r) => [...r.first ? (/^0x0+$/.test(r.prevHead) ? ['first of its stream'] : ['first of its batch, after ', hash(r.prevHead)]) : [], r.first && r.last ? '; ' : '', ...r.last ? ['last of its batch, the signed head is ', hash(r.head)] : []],
  signature: (r) => [`${scheme(r.scheme)} recovers `, hash(r.got)],
  epoch: (r) => [`${plural(r.size, 'batch', 'batches')} → `, hash(r.got)],
  anchor: (r) => [`block ${r.block} of chain ${r.chainId}, attested by `, hash(r.attester)],
  batch: (r) => [`${scheme(r.scheme)} recovers `, hash(r.got)],
  receipt: (r) => ['node ', hash(r.got), ` took it in at position ${r.position} and promised to anchor it by ${utc(r.anchorBy)}`],
  a: (r) => r.rows ? ['its record hashes to ', hash(r.got)] : [`${scheme(r.scheme)} recovers `, hash(r.got)],
  contradiction: (r) => [visible(r.got)],
  same: (r) => ['every part is of batch ', hash(r.got)],
};
SAYS.b = SAYS.a;

/** What a row computed or why it failed or was left out, as nodes. */
export function says(row) {
  if (row.state === 'fail' && row.id === 'reveal' && row.rows) {
    const bad = row.rows.filter((r) => !r.ok);
    if (bad.length) return bad.flatMap((r, i) => [i ? '; ' : '', make('b', {}, visible(r.field)), ' hashes to ', hash(r.got), ...r.want ? [', the record committed to ', hash(r.want)] : [', which the record does not seal']]);
    return ['the opened claim is not well formed'];
  }
  if (row.state === 'fail' && row.id === 'signature' && row.got) return ['recovers ', hash(row.got), ', the agent is ', hash(row.want)];
  if (row.state === 'fail' && row.id === 'path' && row.got) return ['leads to ', hash(row.got), ', the agent signed ', hash(row.want)];
  if (row.state === 'skip' && row.why === 'no anchor is given') return ['not anchored yet, or the proof is not part of this document'];
  if (row.state === 'fail' || row.state === 'skip') return [visible(row.why)];
  if (row.state === 'partial') return [...SAYS[row.id](row), ', but you named no attester to expect, and anyone can attest'];
  return SAYS[row.id](row);
}

const HEADER = ['agent', 'stream', 'index', 'fromSeq', 'toSeq', 'prevHead', 'head', 'root', 'createdAt'];

/** The header fields of two statements that differ, as {field, a, b}. */
export function differences({ a, b }) {
  const [left, right] = [a.header ?? a.batch.header, b.header ?? b.batch.header];
  return HEADER.filter((k) => left[k] !== right[k]).map((field) => ({ field, a: left[field], b: right[field] }));
}

/** The contradiction in one sentence. */
export function sentence({ reason, a, b }) {
  const [x, y] = [a.header, b.header], stream = `stream “${visible((x ?? a.step).stream)}”`, span = (h) => h.fromSeq === h.toSeq ? `step ${h.fromSeq}` : `steps ${h.fromSeq} to ${h.toSeq}`;
  switch (reason) {
    case 'SAME_INDEX': return `The agent signed two different batches number ${x.index} of ${stream}, and only one can be its history.`;
    case 'OVERLAP': return `The agent signed batch ${x.index} with ${span(x)} and batch ${y.index} with ${span(y)} of ${stream}, and they overlap.`;
    case 'ORDER': return `The agent signed batch ${y.index} of ${stream} with ${span(y)}, before ${span(x)} of batch ${x.index}, which has the lower number.`;
    case 'ADJACENT_INDEX_GAP': return `The agent signed batch ${x.index} up to step ${x.toSeq} and batch ${y.index}, the next, from step ${y.fromSeq} of ${stream}: what lies between is in neither.`;
    case 'TOO_FEW_STEPS': return `Between batch ${x.index} and batch ${y.index} of ${stream} lie ${y.index - x.index - 1} batches, yet only ${y.fromSeq - x.toSeq - 1} steps are left for them.`;
    case 'PREV_HEAD': return `Batch ${y.index} of ${stream} follows ${short(y.prevHead)}, but batch ${x.index} before it ends with ${short(x.head)}.`;
    case 'BROKEN_CHAIN': return `Step ${b.step.seq} of ${stream} names ${short(b.step.prev)} as the step before it, and that is not step ${a.step.seq}, which the agent signed as well.`;
    default: return `The agent signed two statements about ${stream} that no honest history holds.`;
  }
}

const short = (h) => `${String(h).slice(0, 10)}…`;

// What the rows say of evidence: two statements, and why no honest history holds both.

import { hash, make, SAYS, scheme, visible } from './words.js';

const statement = (r) => r.rows ? ['its record hashes to ', hash(r.got)] : [`${scheme(r.scheme)} recovers `, hash(r.got)];

Object.assign(SAYS, {
  a: statement, b: statement,
  contradiction: (r, document) => contradiction(document.evidence ?? document.error?.details?.evidence ?? document.details?.evidence ?? document),
});

const value = (v) => make('mark', { class: 'diff' }, /^0x[0-9a-f]{64}$/.test(v) ? hash(v) : visible(v));

function contradiction(evidence) {
  const table = differences(evidence).map(({ field, a, b }) => make('div', {}, make('dt', {}, field), make('dd', {}, value(a), ' and ', value(b))));
  return [make('p', { class: 'contra' }, sentence(evidence)), make('dl', { class: 'differ' }, ...table)];
}

const SIGNED = ['agent', 'stream', 'index', 'fromSeq', 'toSeq', 'prevHead', 'head', 'root', 'createdAt'];

/** The header fields of two statements that differ, as {field, a, b}. */
function differences({ a, b }) {
  const [left, right] = [a.header ?? a.batch.header, b.header ?? b.batch.header];
  return SIGNED.filter((k) => left[k] !== right[k]).map((field) => ({ field, a: left[field], b: right[field] }));
}

/** The contradiction in one sentence. */
function sentence({ reason, a, b }) {
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

// The forge: what somebody would try on a record, done to a copy.

const DAY = 86400;

const amountKey = (d) => ['amount', 'value'].find((k) => /^\d+$/.test(d.reveal.claim?.value?.[k] ?? ''));

/** The claim's amount, or else whatever was opened first. */
function amount(d) {
  const claim = d.reveal.claim?.value, key = amountKey(d);
  if (key) return set(claim, key, String(BigInt(claim[key]) + 1n), `claim.${key}`);
  const [field] = Object.keys(d.reveal);
  return field ? set(d.reveal[field], 'value', `${JSON.stringify(d.reveal[field].value)} and more`, field) : 'nothing is opened';
}

const step = (d) => set(d.step, 'seq', d.step.seq + 1, 'step.seq');
const date = (d) => set(d.batch.header, 'createdAt', Math.max(d.batch.header.createdAt - DAY, 0), 'createdAt');
const drop = (d) => d.proof.siblings.length ? set(d.proof, 'siblings', d.proof.siblings.slice(0, -1), 'proof.siblings') : 'a batch of one step needs no proof hash';

/** The last digit of s: 65-byte signatures end with v, the 64-byte form does not. */
function signature(d) {
  const old = d.batch.signature, at = old.length === 132 ? 129 : old.length - 1;
  return set(d.batch, 'signature', old.slice(0, at) + (old[at] === '1' ? '2' : '1') + old.slice(at + 1), 'signature');
}

function set(object, key, now, path) {
  const was = object[key];
  object[key] = now;
  return { path, was, now };
}

const FORGERIES = { amount, step, date, drop, signature };

/** The forged copy of a document that holds a disclosure: {text, path, was, now}, or {why} where there is nothing to forge. */
export function forge(kind, text) {
  const document = JSON.parse(text), disclosure = document.disclosure ?? document, change = FORGERIES[kind](disclosure);
  return typeof change === 'string' ? { why: change } : { text: JSON.stringify(document), ...change };
}

/** Why a forgery has nothing to work on, or "". */
export const cannotForge = (kind, text) => forge(kind, text).why ?? '';

// ==== Any document: everything above are parts of /sdk/karatum-flight.mjs
//
// It reads one document, which may join several parts of one batch, and checks them all.

const EXAMINE_DEPTH = DOCUMENT_DEPTH + 4, EXAMINE_BYTES = 2 * DOCUMENT_BYTES; // as "karatum verify"
const JOINED = ['disclosure', 'batch', 'proof', 'receipt', 'evidence', 'error', 'details'];

/** Finds the parts of a document: {disclosure, batch, proof, receipt, evidence}, each as {value, path}, and what else it holds. */
function partsOf(document) {
  const parts = {}, unchecked = [];
  const holds = (v, ...keys) => keys.every((k) => has(v, k));
  const found = (kind, value, path) => {
    if (parts[kind]) fail('BAD_REQUEST', `a second ${kind}`, path || undefined);
    parts[kind] = { value, path };
  };
  function read(v, path, depth) {
    const at = (key) => path ? `${path}.${key}` : key;
    if (!isObject(v)) fail('BAD_REQUEST', 'must be an object', path || undefined);
    if (depth > 4) fail('BAD_REQUEST', 'is nested too deep', path);
    if (holds(v, 'type', 'reason', 'a', 'b')) return found('evidence', v, path);
    if (holds(v, 'step', 'reveal', 'proof', 'batch')) return found('disclosure', v, path);
    if (holds(v, 'header', 'scheme', 'signature')) {
      found('batch', { header: v.header, scheme: v.scheme, signature: v.signature }, path);
      for (const key of Object.keys(v)) {
        if (key === 'receipt') read(v[key], at(key), depth + 1);
        else if (!has(BATCH, key)) unchecked.push(at(key.slice(0, 64)));
      }
      return undefined;
    }
    if (holds(v, 'batchId', 'epoch', 'proof')) return found('proof', v, path);
    if (holds(v, 'batchId', 'position', 'node', 'signature')) return found('receipt', v, path);
    const before = Object.keys(parts).length;
    for (const key of Object.keys(v)) {
      if (JOINED.includes(key)) read(v[key], at(key), depth + 1);
      else unchecked.push(at(key.slice(0, 64)));
    }
    if (Object.keys(parts).length === before) {
      fail('BAD_REQUEST', 'this is no disclosure, batch, batch proof, receipt or evidence, nor does it hold one', path || undefined);
    }
    return undefined;
  }
  read(document, '', 0);
  return { parts, unchecked };
}

/** Where a member of a valid JSON text begins, by its dotted path; what is missing is looked for in its parent. */
function offsetOf(text, path) {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gy, space = /\s*/gy;
  let at = 0;
  const next = () => { space.lastIndex = at; space.exec(text); at = space.lastIndex; token.lastIndex = at; const t = token.exec(text); at = token.lastIndex; return t[0]; };
  const start = () => { space.lastIndex = at; space.exec(text); return space.lastIndex; };
  const skip = () => { for (let deep = 0; ;) { const t = next(); if (t === '{' || t === '[') deep++; else if (t === '}' || t === ']') deep--; if (deep === 0) return; } };
  const keys = path.split('.');
  let found = start();
  next();
  while (keys.length && text[found] === '{') {
    const [open, key] = [at, keys.shift()];
    let hit = -1;
    for (let t = next(); t !== '}'; t = next()) {
      if (t === ',') continue;
      const here = at - t.length;
      next();
      if (JSON.parse(t) === key) { hit = here; break; }
      skip();
    }
    if (hit < 0) return open - 1;
    found = keys.length ? start() : hit;
    if (keys.length) next();
  }
  return found;
}

/** A refusal in one sentence, with the line and the field it is about. */
function refusal(e, text, path) {
  const field = [path, e.field].filter(Boolean).join('.'), offset = e.offset ?? (field ? offsetOf(text, field) : -1);
  const before = text.slice(0, Math.max(offset, 0)).split('\n'), place = offset < 0 ? '' : `Line ${before.length}, column ${before.at(-1).length + 1}: `;
  const message = String(e.message).replace(/ at offset \d+$/, '').replace(`${e.field}: `, '');
  return { ok: false, complete: false, rows: [], code: e.code ?? 'BAD_REQUEST', why: `${place}${field && `${field}: `}${message}` };
}

/** The batchId that a part speaks of. */
const batchOf = {
  disclosure: (d) => batchId(d.batch.header), batch: (b) => batchId(b.header), proof: (p) => p.batchId, receipt: (r) => r.batchId,
};

/**
 * Checks every part of a document, given as text or bytes, and hears each row as it is done. Returns {ok, complete, code, rows,
 * kinds, unchecked}, and `why` in place of rows where the document cannot be read.
 */
export async function examine(input, onCheck = () => {}) {
  let text = '', path = '';
  const rows = [];
  const tell = async (row) => { rows.push(row); await onCheck(row); };
  const run = async (id, code, check) => tell(await runRow(id, code, check));
  const read = ({ rows, why, details }) => { if (!rows.length) throw Object.assign(new Error(why), details); };
  try {
    text = typeof input === 'string' ? input : decode(input);
    if (text.length > EXAMINE_BYTES) fail('TOO_LARGE', `the document is over ${EXAMINE_BYTES} bytes`);
    const { parts, unchecked } = partsOf(parse(text, EXAMINE_DEPTH)), { disclosure, batch, proof, receipt, evidence } = parts;
    const enter = (part) => { path = part.path; return part.value; };
    if (proof) checkAnchoringShape(enter(proof));
    if (disclosure) read(await verifyDisclosure(enter(disclosure), { onCheck: tell, anchoring: proof?.value }));
    if (batch) {
      checkBatchShape(enter(batch), '');
      await run('batch', 'SIGNATURE', () => { checkHeader(batch.value.header); return checkSignatureRow({ batch: batch.value }, {}); });
    }
    if (receipt) {
      const { position, anchorBy, receivedAt } = enter(receipt);
      await run('receipt', 'RECEIPT', () => ({ got: verifyReceipt(receipt.value), position, anchorBy, receivedAt }));
    }
    if (evidence) read(await verifyEquivocation(enter(evidence), { onCheck: tell }));
    if (proof && !disclosure) {
      await run('epoch', 'EPOCH', () => checkEpochRow(proof.value.batchId, proof.value));
      await run('anchor', 'ANCHOR', () => anchorRow(proof.value, {}));
    }
    const ids = Object.keys(batchOf).filter((k) => parts[k]).map((k) => batchOf[k](parts[k].value));
    if (ids.length > 1 && (batch || receipt)) await run('same', 'SAME_BATCH', () => sameBatch(ids));
    return { ...verdict(rows), kinds: Object.keys(parts), unchecked };
  } catch (e) { return refusal(e, text, path); }
}

function sameBatch(ids) {
  const other = ids.find((id) => id !== ids[0]);
  return other ? { failed: ['SAME_BATCH'], why: `one part is of batch ${ids[0]}, another of ${other}` } : { got: ids[0] };
}

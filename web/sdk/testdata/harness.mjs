// Answers each line of standard input with one line, computed by karatum-flight.mjs. Arguments are 0x hex, split by spaces.
import { readFileSync } from 'node:fs';
import * as k from '../karatum-flight.mjs';

const attempt = (run) => { try { return run(); } catch (e) { return `error ${e.code ?? e}`; } };

/** Sorts keys, then lets the engine write: a second opinion on numbers, strings and order. */
function native(v) {
  if (Array.isArray(v)) return `[${v.map(native)}]`;
  if (v === null || typeof v !== 'object') return JSON.stringify(v);
  return `{${Object.keys(v).sort().map((key) => `${JSON.stringify(key)}:${native(v[key])}`)}}`;
}

const ops = {
  canonical: (text) => attempt(() => k.hex(new TextEncoder().encode(k.canonicalJson(k.parse(k.unhex(text)))))),
  native: (text) => k.hex(new TextEncoder().encode(native(JSON.parse(new TextDecoder().decode(k.unhex(text)))))),
  keccak: (data) => k.hex(k.keccak256(k.unhex(data))),
  recover: (digest, signature) => attempt(() => k.recover(k.unhex(digest), k.unhex(signature))),
  sign: (key, digest) => k.signDigest(key, k.unhex(digest)),
  disclosure: async (text) => { const v = await k.verifyDisclosure(k.unhex(text)); return v.code ?? `ok ${v.stepHash} ${v.batchId}`; },
  evidence: async (text) => { const v = await k.verifyEquivocation(k.unhex(text)); return v.code ?? 'ok'; },
  rows: async (text) => (await k.verify(k.unhex(text))).rows.map((r) => `${r.id}:${r.state}`).join(' '),
  anchor: async (text, rpc, attester) => {
    const v = await k.verifyAnchor(k.unhex(text), { rpc: rpc === '-' ? undefined : rpc, attester: attester === '-' ? undefined : attester });
    return [v.ok ? (v.complete ? 'complete' : 'ok') : v.code, ...v.rows.map((r) => `${r.id}:${r.state}`)].join(' ');
  },
  header: (text) => attempt(() => { try { k.checkHeader(k.parse(k.unhex(text))); return 'ok'; } catch (e) { return e.field ?? e.code; } }),
};

const out = [];
for (const line of readFileSync(0, 'utf8').split('\n')) if (line) out.push(await ops[process.argv[2]](...line.split(' ')));
console.log(out.join('\n'));

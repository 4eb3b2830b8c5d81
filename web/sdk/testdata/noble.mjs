// Answers like harness.mjs, computed by @noble/curves and @noble/hashes, whose folder is the first argument.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [dir, op] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${dir}/@noble/${name}`).href);
const { secp256k1 } = await load('curves/secp256k1.js');
const { keccak_256 } = await load('hashes/sha3.js');
const bytes = (text) => Uint8Array.from(Buffer.from(text.slice(2), 'hex'));
const hex = (data) => '0x' + Buffer.from(data).toString('hex');

/** [r||s, recovery id] of the forms that spec section 3 allows, or null. */
function form(raw) {
  if (raw.length === 64) return [Uint8Array.from(raw, (b, i) => i === 32 ? b & 0x7f : b), raw[32] >> 7];
  const v = { 0: 0, 1: 1, 27: 0, 28: 1 }[raw[64]];
  return raw.length === 65 && v !== undefined ? [raw.subarray(0, 64), v] : null;
}

function recover(digest, signature) {
  try {
    const [rs, v] = form(bytes(signature));
    const s = secp256k1.Signature.fromBytes(rs, 'compact').addRecoveryBit(v);
    if (s.hasHighS()) return 'error SIGNATURE';
    const key = s.recoverPublicKey(bytes(digest)).toBytes(false);
    return hex(keccak_256(key.subarray(1)).subarray(12));
  } catch {
    return 'error SIGNATURE';
  }
}

function sign(key, digest) {
  const raw = secp256k1.sign(bytes(digest), bytes(key), { prehash: false, format: 'recovered' });
  return hex([...raw.subarray(1), 27 + raw[0]]);
}

const ops = { recover, sign, keccak: (data) => hex(keccak_256(bytes(data))) };
const out = [];
for (const line of readFileSync(0, 'utf8').split('\n')) if (line) out.push(ops[op](...line.split(' ')));
console.log(out.join('\n'));

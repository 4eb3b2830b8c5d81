// Karatum Flight Record v1 in one file: verifier, recorder and checker. No dependencies.
// For Node 18+, Deno and browsers. The Python twin, karatum_flight.py, has the same parts in the same order.
// version: 1.0.0
// sha256: 49c1d21edbad6e12d82af209bd16d72fc6d030671d5aa61b3208998de14716ad
// The hash is of this file without its sha256 line: grep -v '^// sha256:' karatum-flight.mjs | sha256sum
//
// Part 1, the verifier, uses no network and no secret, and is a module by itself. Part 2 records. Part 3 is the command line:
//   node karatum-flight.mjs verify FILE [--rpc URL] [--attester ADDRESS]
//   node karatum-flight.mjs conformance VECTORS

/** Every refusal: a stable code, a sentence and, where there is one, the field at fault. */
export class FlightError extends Error {
  constructor(code, message, field) {
    super(field ? `${field}: ${message}` : message);
    this.code = code;
    if (field) this.field = field;
  }
}
const fail = (code, message, field) => { throw new FlightError(code, message, field); };

// ---- Bytes

const utf8 = (s) => new TextEncoder().encode(s);
export const hex = (bytes) => '0x' + Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
const isHex = (v, n) => typeof v === 'string' && v.length === 2 + 2 * n && /^0x[0-9a-f]*$/.test(v);

/** Reads lower-case 0x hex of n bytes; any whole number of bytes where n is left out. */
export function unhex(text, n = (text.length - 2) / 2) {
  if (!isHex(text, n)) fail('HEX', `must be ${n} bytes as lower-case 0x hex`);
  return Uint8Array.from({ length: n }, (_, i) => parseInt(text.slice(2 + 2 * i, 4 + 2 * i), 16));
}

function concat(parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) { out.set(p, at); at += p.length; }
  return out;
}

const word = (n) => unhex('0x' + BigInt(n).toString(16).padStart(64, '0'));

// ---- Canonical JSON (spec section 1)

export const MAX_DEPTH = 64, MAX_BYTES = 1 << 20; // of one committed value
const DOCUMENT_DEPTH = 80, DOCUMENT_BYTES = 5 << 20; // of a disclosure

/**
 * Parses exactly one JSON value from text or UTF-8 bytes, at most `depth` containers deep. JSON.parse would let duplicate
 * keys, rounded integers and lone surrogates in raw text pass. Objects come without a prototype, so "__proto__" is a key.
 */
export function parse(input, depth = MAX_DEPTH) {
  const text = typeof input === 'string' ? input : decode(input);
  let at = 0;
  const bad = (code, message) => { throw Object.assign(new FlightError(code, `${message} at offset ${at}`), { offset: at }); };
  const match = (pattern) => { pattern.lastIndex = at; return pattern.exec(text) ?? []; };
  const next = () => { at += match(/[ \t\n\r]*/y)[0].length; return text[at]; };
  const expect = (token) => next() === token ? at++ : bad('SYNTAX', `expected ${token}`);

  function value(level) {
    const c = next(), list = c === '[', end = list ? ']' : '}', out = list ? [] : Object.create(null);
    if (c !== '"' && c !== '{' && !list) return literal();
    at++;
    if (c === '"') return string();
    if (level === depth) bad('TOO_DEEP', 'nested too deep');
    for (let more = false; next() !== end; more = true) {
      if (more) expect(',');
      if (list) { out.push(value(level + 1)); continue; }
      expect('"');
      const key = string();
      if (key in out) bad('DUPLICATE_KEY', `key ${JSON.stringify(key.slice(0, 64))} stands twice`);
      expect(':');
      out[key] = value(level + 1);
    }
    at++;
    return out;
  }

  function string() {
    const from = at - 1;
    for (let run; (run = match(/[^"\\\0-\x1f\ud800-\udfff]{1,4096}|\\(["\\/bfnrt]|u[\da-fA-F]{4})/uy)[0]);) at += run.length;
    if (text[at] >= '\ud800') bad('INVALID_UTF8', 'the text is not UTF-8');
    if (text[at] !== '"') bad('SYNTAX', 'a string without end, no escape of JSON, or a control character');
    return JSON.parse(text.slice(from, ++at));
  }

  function literal() {
    const [token, digits, fraction, exponent] = match(/true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?(?![\d.eE])/y), n = JSON.parse(token ?? bad('SYNTAX', 'expected a value'));
    if (digits && !Number.isFinite(n)) bad('NON_FINITE', 'beyond the double range');
    if (digits?.length > 15 && !fraction && !exponent && significant(digits) !== significant(String(Math.abs(n)))) bad('UNSAFE_INTEGER', 'no double holds this integer exactly; pass a string');
    at += token.length;
    return n;
  }

  const out = value(0);
  if (next() !== undefined) bad('TRAILING_DATA', 'more follows');
  return out;
}

/** The digits of an integer, or of the exponent form in which ECMAScript prints it, without the zeros at the end: 15 of both 1500 and 1.5e+3. */
const significant = (digits) => digits.replace(/\.|0*(e.*)?$/g, '');

// ==== Canonical text

/**
 * The canonical text of a value: keys sorted by UTF-16 code unit at every level, no whitespace, ECMAScript strings and
 * numbers, as JSON.stringify writes them. Members that are undefined are absent and toJSON is honoured, as there; what
 * JSON.stringify would quietly lose (NaN, functions, Map, bigint) is refused.
 */
export function canonicalJson(value, depth = MAX_DEPTH, bytes = MAX_BYTES) {
  function write(v, level) {
    if (typeof v?.toJSON === 'function') v = v.toJSON();
    if (v === null || typeof v === 'boolean' || typeof v === 'string' || Number.isFinite(v)) return JSON.stringify(v);
    if (typeof v === 'number') fail('NON_FINITE', `${v} is not JSON`);
    const list = Array.isArray(v);
    if (!list && Object.prototype.toString.call(v) !== '[object Object]') fail('UNSUPPORTED_TYPE', `a ${typeof v} is not JSON; pass a string`);
    if (level === depth) fail('TOO_DEEP', 'nested too deep');
    return list ? `[${Array.from(v, (e) => write(e, level + 1))}]`
      : `{${Object.keys(v).filter((k) => v[k] !== undefined).sort().map((k) => `${JSON.stringify(k)}:${write(v[k], level + 1)}`)}}`;
  }
  const text = write(value, 0);
  return utf8(text).length > bytes ? fail('TOO_LARGE', `over ${bytes} bytes`) : text;
}

// ---- Keccak-256

/**
 * Keccak-f[1600]. Lane i is s[2i], its low 32 bits, and s[2i+1]. The round constants come from the specification's LFSR, the rho
 * rotations and pi lanes from its walk. Shifts count modulo 32, and no lane turns by a multiple of that.
 */
function permute(s) {
  const c = new Int32Array(10);
  for (let round = 0, lfsr = 1; round < 24; round++) {
    for (let x = 0; x < 10; x++) c[x] = s[x] ^ s[x + 10] ^ s[x + 20] ^ s[x + 30] ^ s[x + 40];
    for (let x = 0; x < 10; x += 2) {
      const l = c[(x + 2) % 10], h = c[(x + 3) % 10];
      const low = c[(x + 8) % 10] ^ (l << 1 | h >>> 31), high = c[(x + 9) % 10] ^ (h << 1 | l >>> 31);
      for (let y = x; y < 50; y += 10) { s[y] ^= low; s[y + 1] ^= high; }
    }
    for (let t = 1, r = 1, x = 0, y = 2, l = s[2], h = s[3]; t < 25; r += ++t) {
      const at = 2 * x + 10 * y;
      if (r & 32) [l, h] = [h, l];
      const low = l << r | h >>> -r, high = h << r | l >>> -r;
      l = s[at]; h = s[at + 1];
      s[at] = low; s[at + 1] = high;
      [x, y] = [y, (2 * x + 3 * y) % 5];
    }
    for (let y = 0; y < 50; y += 10) {
      for (let x = 0; x < 10; x++) c[x] = s[y + x];
      for (let x = 0; x < 10; x++) s[y + x] ^= ~c[(x + 2) % 10] & c[(x + 4) % 10];
    }
    for (let j = 0; j < 7; j++) {
      if (lfsr & 1) s[j > 5 ? 1 : 0] ^= 1 << (1 << j) - 1;
      lfsr = lfsr << 1 ^ (lfsr & 0x80 && 0x171);
    }
  }
}

/** Hashes the concatenation of the parts; strings count as UTF-8. Returns 32 bytes. */
export function keccak256(...parts) {
  const input = concat(parts.map((p) => typeof p === 'string' ? utf8(p) : p)), state = new Int32Array(50);
  const padded = new Uint8Array(input.length + 136 - input.length % 136);
  padded.set(input);
  padded[input.length] = 1;
  padded[padded.length - 1] ^= 0x80;
  for (let i = 0; i < padded.length; i++) {
    const at = i % 136;
    state[at >> 2] ^= padded[i] << 8 * at;
    if (at === 135) permute(state);
  }
  return Uint8Array.from({ length: 32 }, (_, i) => state[i >> 2] >>> 8 * i);
}
const keccak = (...parts) => hex(keccak256(...parts));

// ---- secp256k1

const P = 2n ** 256n - 2n ** 32n - 977n, N = 2n ** 256n - 0x14551231950b75fc4402da1732fc9bebfn;
const mod = (a, m = P) => { const r = a % m; return r < 0n ? r + m : r; };
const toInt = (bytes) => BigInt(hex(bytes));

/** a^e modulo m. */
function power(a, e, m) {
  let out = 1n;
  for (const bit of e.toString(2)) { out = out * out % m; if (bit === '1') out = out * a % m; }
  return out;
}
const invert = (a, m) => power(mod(a, m), m - 2n, m);

/** The point with this x whose y is odd or even. Points are [X, Y, Z] in Jacobian coordinates, x = X/Z^2 and y = Y/Z^3; null is the point at infinity. */
function lift(x, odd) {
  const square = mod(x * x * x + 7n), y = power(square, (P + 1n) / 4n, P); // the root where there is one
  if (mod(y * y) !== square) fail('SIGNATURE', 'the signature recovers to no key');
  return [x, Number(y & 1n) === odd ? y : P - y, 1n];
}
const G = lift(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n, 0);

function double(p) {
  if (!p) return null;
  const [x, y, z] = p, yy = mod(y * y), s = mod(4n * x * yy), m = mod(3n * x * x);
  const x3 = mod(m * m - 2n * s);
  return [x3, mod(m * (s - x3) - 8n * yy * yy), mod(2n * y * z)];
}

function add(p, q) {
  if (!p || !q) return p || q;
  const [x1, y1, z1] = p, [x2, y2, z2] = q, zz1 = mod(z1 * z1), zz2 = mod(z2 * z2);
  const u = mod(x1 * zz2), s = mod(y1 * zz2 * z2), h = mod(x2 * zz1 - u), r = mod(y2 * zz1 * z1 - s);
  if (h === 0n) return r === 0n ? double(p) : null;
  const hh = mod(h * h), hhh = mod(h * hh), v = mod(u * hh), x3 = mod(r * r - hhh - 2n * v);
  return [x3, mod(r * (v - x3) - s * hhh), mod(z1 * z2 * h)];
}

/** a*G + b*Q, a bit of both scalars at a time. */
function multiply(a, b, q) {
  const table = [null, G, q, add(G, q)];
  let sum = null;
  for (let i = 255n; i >= 0n; i--) sum = add(double(sum), table[Number((a >> i & 1n) + 2n * (b >> i & 1n))]);
  return sum;
}

function affine([x, y, z]) {
  const i = invert(z, P), ii = mod(i * i);
  return [mod(x * ii), mod(y * ii * i)];
}

const addressOf = ([x, y]) => hex(keccak256(word(x), word(y)).subarray(12));

/**
 * Reads a signature (spec section 3): 65 bytes r||s||v with v in {0, 1, 27, 28} or 64 bytes EIP-2098, as hex or bytes; high s
 * and values out of range are refused. Returns {r, s, parity, signature}, the last as 65 bytes with v 27 or 28.
 */
export function decodeSignature(signature) {
  const raw = typeof signature === 'string' ? unhex(signature) : signature, short = raw.length === 64;
  const bad = (when) => when && fail('SIGNATURE', 'no signature of an accepted form');
  bad(!short && raw.length !== 65);
  const v = short ? raw[32] >> 7 : raw[64] % 27, r = toInt(raw.subarray(0, 32)), s = toInt(raw.subarray(32, 64)) % 2n ** (short ? 255n : 256n);
  bad(v > 1 || raw[64] > 28 || !r || r >= N || !s || s > N / 2n);
  return { r, s, parity: v, signature: hex(concat([word(r), word(s), [27 + v]])) };
}

/** The address whose key signed the 32-byte digest. */
export function recover(digest, signature) {
  const { r, s, parity } = decodeSignature(signature), i = invert(r, N);
  const key = multiply(mod(-toInt(digest) * i, N), mod(s * i, N), lift(r, parity));
  return key ? addressOf(affine(key)) : fail('SIGNATURE', 'the signature recovers to no key');
}

/** The EIP-191 digest of a text (personal_sign); its length counts UTF-8 bytes. */
export function textDigest(text) {
  const bytes = utf8(text);
  return keccak256(`\x19Ethereum Signed Message:\n${bytes.length}`, bytes);
}

// ==== Trees (seed section 2.4)

export const leafHash = (item) => keccak([0], unhex(item, 32));
const nodeHash = (left, right) => keccak([1], unhex(left, 32), unhex(right, 32));

/** Walks from an item to the root and returns every node on the way, the root last. Every sibling must be used. */
export function foldProof(item, index, size, siblings) {
  if (!isCount(index) || !isCount(size) || index >= size) fail('PROOF', 'the index is outside the tree');
  const path = [{ hash: leafHash(item) }];
  let hash = path[0].hash, used = 0;
  for (; size > 1; index = Math.floor(index / 2), size = Math.ceil(size / 2)) {
    if (index === size - 1 && size % 2 === 1) { path.push({ hash, promoted: true }); continue; }
    if (used === siblings.length) fail('PROOF', 'the proof is too short');
    const sibling = siblings[used++], left = index % 2 === 1;
    hash = left ? nodeHash(sibling, hash) : nodeHash(hash, sibling);
    path.push({ hash, sibling, side: left ? 'left' : 'right' });
  }
  if (used !== siblings.length) fail('PROOF', 'the proof is too long');
  return { root: hash, path };
}

// ---- Objects (spec section 2)

const ZERO = '0x' + '0'.repeat(64);
export const FIELDS = ['prompt', 'args', 'result', 'claim'];
const MAX_SPAN = 65536;

const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
const isCount = (v) => Number.isSafeInteger(v) && v >= 0;
const has = (v, key) => Object.prototype.hasOwnProperty.call(v, key);
const hexOf = (n) => (v) => isHex(v, n) || `must be ${n} bytes as lower-case 0x hex`;
const hash32 = hexOf(32), address = hexOf(20);
const count = (v) => isCount(v) || 'must be an integer from 0 to 2^53-1';
const text = (v) => typeof v === 'string' || 'must be a string';
const oneOf = (...set) => (v) => set.includes(v) || `must be one of ${set.join(', ')}`;

const object = (v) => isObject(v) || 'must be an object';
const below = (path, key) => path && key ? `${path}.${key}` : path || key;

/** Checks that v has exactly the keys of `fields`, those in `optional` or not, and that each value passes its test. */
function shape(v, fields, { code = 'BAD_REQUEST', path = '', optional = [] } = {}) {
  const test = (ok, key = '') => { if (ok !== true) fail(code, ok, below(path, key)); };
  test(object(v));
  for (const key of Object.keys(v)) test(has(fields, key) || 'unknown key', key.slice(0, 64));
  for (const key of Object.keys(fields)) test(has(v, key) ? fields[key](v[key]) : optional.includes(key) || 'is missing', key);
  return v;
}

// ==== Steps (spec section 2)

// Categories Cc, Cf, Cs, Zl and Zp as of Unicode 15.0, whatever the engine knows. They would forge lines in the EIP-191 text.
const FORBIDDEN = /[\0-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0001}\u{e0020}-\u{e007f}]/u;

const points = (most) => (v) => typeof v === 'string' && v !== '' && [...v].length <= most || `must have 1 to ${most} code points`;

/** true, or what is wrong with a stream name. */
export function checkStream(v) {
  const ok = points(64)(v);
  return ok !== true ? ok : FORBIDDEN.test(v) ? 'must not hold control, format, separator or lone surrogate characters'
    : !/\/|^\.\.?$|^ | $/.test(v) || 'must not hold /, be . or .., or begin or end with a space';
}

const STEP = {
  v: oneOf('karatum.fr.v1'), agent: address, stream: checkStream, seq: count, prev: hash32, at: count,
  kind: oneOf('tool', 'llm', 'tx', 'message', 'note'), status: oneOf('ok', 'error'),
  name: points(128),
  prompt: hash32, args: hash32, result: hash32, claim: hash32, chainId: count, txHash: hash32,
};

/** Refuses a step that breaks a rule of spec section 2. */
export function checkStep(step) {
  const bad = (message, field) => fail('STEP_SCHEMA', message, field);
  shape(step, STEP, { code: 'STEP_SCHEMA', optional: ['name', 'chainId', 'txHash', ...FIELDS] });
  if (step.seq === 0 && step.prev !== ZERO) bad('must be zero at seq 0', 'prev');
  if (has(step, 'chainId') !== has(step, 'txHash')) bad('must come with chainId', 'txHash');
  if (!FIELDS.some((f) => has(step, f))) bad('must commit to something', 'args');
  return step;
}

export const stepHash = (step) => keccak('karatum.fr.v1.step\n', canonicalJson(step));
export const commit = (value, salt) => keccak('karatum.fr.v1.commit', unhex(salt, 32), canonicalJson(value));

const amount = (v) => typeof v === 'string' && /^(0|[1-9][0-9]{0,77})$/.test(v) && BigInt(v) < 2n ** 256n || 'must be a decimal string below 2^256';
const CLAIMS = {
  'tx.success': { kind: text }, 'native.transfer': { kind: text, to: address, value: amount },
  'erc20.transfer': { kind: text, token: address, to: address, amount },
};

/** Refuses a malformed claim. Returns false for a kind that nobody here interprets (UNSUPPORTED_CLAIM), else true. */
export function checkClaim(claim) {
  if (!isObject(claim) || !has(claim, 'kind') || typeof claim.kind !== 'string') fail('CLAIM', 'must be a string', 'kind');
  if (!has(CLAIMS, claim.kind)) return false;
  shape(claim, CLAIMS[claim.kind], { code: 'CLAIM' });
  return true;
}

// ---- What the agent signs (seed section 2.5)

const HEADER_SHAPE = { agent: address, stream: text, index: count, fromSeq: count, toSeq: count, prevHead: hash32, head: hash32, root: hash32, createdAt: count };
const HEADER = Object.keys(HEADER_SHAPE);

export const DOMAIN = { name: 'Karatum Flight Record', version: '1' };
export const TYPES = { FlightBatch: HEADER.map((name) => ({ name, type: new Map([[address, 'address'], [text, 'string'], [count, 'uint64'], [hash32, 'bytes32']]).get(HEADER_SHAPE[name]) })) };

/** The EIP-712 digest of a header, which is its batchId under either scheme. */
export function batchId(h) {
  const domain = keccak256(keccak256('EIP712Domain(string name,string version)'), keccak256(DOMAIN.name), keccak256(DOMAIN.version));
  const type = keccak256(`FlightBatch(${TYPES.FlightBatch.map(({ name, type }) => `${type} ${name}`).join(',')})`);
  return keccak([0x19, 0x01], domain, keccak256(type, ...HEADER.map((name) => name === 'stream' ? keccak256(h.stream) : word(h[name]))));
}

const lines = (title, v, keys) => [title, ...keys.map((k) => `${k}: ${v[k]}`)].join('\n');
export const batchText = (h) => lines('Karatum Flight Batch v1', h, HEADER);
export const batchDigest = (h, scheme) => scheme === 'eip191' ? textDigest(batchText(h)) : unhex(batchId(h), 32);
export function batchSigner({ header, scheme, signature }) {
  if (/[\ud800-\udfff]/u.test(header.stream)) fail('SIGNATURE', 'nobody signs a lone surrogate');
  return recover(batchDigest(header, scheme), signature);
}

// ---- Checks, and that of a signature (seed section 2.6)

const anyHex = (v) => typeof v === 'string' && v.length % 2 === 0 && isHex(v, (v.length - 2) / 2) || 'must be bytes as lower-case 0x hex';
const anything = () => true;
const PROOF = { index: count, size: count, siblings: (v) => Array.isArray(v) && v.length <= 64 && v.every((s) => isHex(s, 32)) || 'must be at most 64 hashes' };
const BATCH = { header: anything, scheme: oneOf('eip712', 'eip191'), signature: anyHex };

function checkBatchShape(v, path) {
  shape(v, BATCH, { path });
  shape(v.header, HEADER_SHAPE, { path: below(path, 'header') });
}

/** Text and bytes are parsed strictly; a parsed object is taken as it is. */
function read(input) {
  const bytes = typeof input === 'string' ? utf8(input) : input;
  if (!(bytes instanceof Uint8Array)) return input;
  if (bytes.length > DOCUMENT_BYTES) fail('TOO_LARGE', `over ${DOCUMENT_BYTES} bytes`);
  return parse(input, DOCUMENT_DEPTH);
}

// The order in which a refusal names the first check that fails (spec section 6), then the two that look at the anchor.
export const CODES = ['STEP_SCHEMA', 'SIGNATURE', 'STEP_BATCH', 'PROOF', 'PREV_HEAD', 'HEAD', 'REVEAL_KEY', 'COMMITMENT', 'CLAIM', 'EPOCH', 'ANCHOR'];
const firstCode = (codes) => CODES.find((c) => codes.includes(c)) ?? codes[0] ?? null;

function checkSignatureRow({ batch }, ctx) {
  const { header, scheme } = batch, want = header.agent;
  ctx.batchId = batchId(header);
  const got = batchSigner(batch);
  return { got, want, batchId: ctx.batchId, scheme, why: got !== want && `the signature recovers to ${got}` };
}

const now = () => globalThis.performance?.now() ?? Date.now();

/** Runs one check: a row {id, state: pass|fail|skip|partial, code, why, ms} plus what it computed. A check fails for `why`, with `code` or those in `failed`. */
async function runRow(id, code, run) {
  const start = now();
  const { why, failed = why ? [code] : [], skip, partial, ...seen } = await Promise.resolve().then(run).catch((e) => ({ why: e.message }));
  const state = failed.length ? 'fail' : skip ? 'skip' : partial ? 'partial' : 'pass';
  return { id, state, code: firstCode(failed), codes: failed, why: state === 'fail' ? why : skip || partial || '', ms: now() - start, ...seen };
}

/** Runs checks, each [id, code, run], and tells of each as it is done. */
async function runRows(plan, onCheck) {
  const rows = [];
  for (const check of plan) {
    rows.push(await runRow(...check));
    await onCheck(rows.at(-1), rows.length - 1);
  }
  return verdict(rows);
}

const refused = (e) => ({ ok: false, complete: false, code: 'BAD_REQUEST', details: { code: e.code, field: e.field ?? null, offset: e.offset ?? null }, why: e.message, rows: [] });

const verdict = (rows) => ({
  ok: rows.every((r) => r.state !== 'fail'), complete: rows.every((r) => r.state === 'pass'),
  code: firstCode(rows.flatMap((r) => r.codes)), rows,
});

// ==== Epochs (seed section 2.6)

function checkAnchoringShape(a) {
  shape(a, { batchId: hash32, epoch: object, proof: anything, anchor: (v) => v === null || isObject(v) && isCount(v.chainId) && (v.txHash == null || isHex(v.txHash, 32)) || 'must name a chain and a transaction, or be null' });
  shape(a.epoch, { root: hash32, batchCount: count }, { path: 'epoch' });
  shape(a.proof, PROOF, { path: 'proof' });
}

function checkEpochRow(id, a) {
  const { index, size, siblings } = a.proof, seen = { want: a.epoch.root, size };
  if (a.batchId !== id) return { ...seen, why: `the proof is of batch ${a.batchId}` };
  if (size !== a.epoch.batchCount) return { ...seen, why: `proof.size is ${size}, not ${a.epoch.batchCount}` };
  const { root, path } = foldProof(id, index, size, siblings);
  return { ...seen, got: root, path, why: root !== seen.want && 'the path does not reach the epoch root' };
}

const anchorRow = (a, o) => a?.anchor ? o.rpc ? checkAnchorRow(a, o) : { skip: 'needs a chain connection' } : { skip: 'no anchor is given' };

// ==== Disclosures (seed section 2.6)

function checkDisclosureShape(d, path = '') {
  shape(d, { step: object, reveal: object, proof: object, batch: object }, { path });
  shape(d.proof, PROOF, { path: below(path, 'proof') });
  checkBatchShape(d.batch, below(path, 'batch'));
  for (const f of Object.keys(d.reveal)) shape(d.reveal[f], { salt: hash32, value: anything }, { path: below(path, `reveal.${f.slice(0, 64)}`) });
}

function checkStepRow({ step }, ctx) {
  checkStep(step);
  ctx.hash = stepHash(step);
  return { got: ctx.hash, bytes: utf8(canonicalJson(step)).length };
}

function checkPlaceRow({ step, proof, batch: { header: h } }) {
  const { seq } = step, { fromSeq, toSeq } = h, { index, size } = proof, span = toSeq - fromSeq + 1;
  const other = ['agent', 'stream'].find((k) => step[k] !== h[k]);
  const why = other ? `the header is of another ${other}`
    : span < 1 || span > MAX_SPAN || fromSeq < h.index || (h.index === 0 && fromSeq !== 0) ? 'no batch can have this index and span'
    : seq < fromSeq || seq > toSeq ? `step ${seq} is outside ${fromSeq} to ${toSeq}`
    : index !== seq - fromSeq ? `proof.index is ${index}, not ${seq - fromSeq}`
    : size !== span ? `proof.size is ${size}, not ${span}` : '';
  return { seq, fromSeq, toSeq, why };
}

const UNREACHED = 'the path does not reach the signed root';

/** Place and size come from the signed header: a proof alone could be read as one of another tree size. */
function checkPathRow({ step, proof, batch: { header: h } }, ctx) {
  const { root: got, path } = foldProof(ctx.hash, step.seq - h.fromSeq, h.toSeq - h.fromSeq + 1, proof.siblings), want = h.root;
  ctx.reached = got === want;
  return { got, want, path, why: !ctx.reached && UNREACHED };
}

/**
 * The header holds what the first step must follow and what the last must hash to. Any other step follows the one that stands before
 * it in the tree: at an odd place that leaf is the nearest sibling, at an even one the proof does not hold it. A leaf that is not
 * the one named refutes the agent's chain, not this disclosure, which is as the agent signed it.
 */
function checkLinksRow({ step, proof, batch: { header: h } }, ctx) {
  const { seq, prev } = step, { fromSeq, toSeq, prevHead, head } = h, first = seq === fromSeq, last = seq === toSeq, failed = [];
  if (seq < fromSeq || seq > toSeq) return { skip: 'the step has no place in this batch' };
  if (first && prev !== prevHead) failed.push('PREV_HEAD');
  if (last && ctx.hash !== head) failed.push('HEAD');
  const beside = ctx.reached && (seq - fromSeq) % 2 ? proof.siblings[0] : null, follows = beside === leafHash(prev);
  const broken = beside && !follows ? 'the agent signed another step before this one' : '';
  const skip = !failed.length && !first && !follows && !last && (broken || (ctx.reached ? 'the proof does not hold the step before this one' : UNREACHED));
  return skip ? { skip } : { first, last, seq, prevHead, head, follows, failed, partial: last && broken, why: 'the header names another step' };
}

function checkRevealRow({ step, reveal }) {
  const rows = Object.entries(reveal).map(([field, { salt, value }]) => {
    const want = FIELDS.includes(field) && has(step, field) ? step[field] : null, got = commit(value, salt);
    return { field, got, want, ok: got === want };
  });
  if (!rows.length) return { skip: 'nothing is opened' };
  const failed = rows.filter((r) => !r.ok).map((r) => r.want ? 'COMMITMENT' : 'REVEAL_KEY');
  let claim = null;
  if (rows.some((r) => r.field === 'claim' && r.ok)) {
    try { claim = checkClaim(reveal.claim.value) ? reveal.claim.value.kind : 'UNSUPPORTED_CLAIM'; } catch { failed.push('CLAIM'); }
  }
  const sealed = FIELDS.filter((f) => has(step, f) && !has(reveal, f));
  return { rows, sealed, claim, failed, why: 'a value is not the one committed to, or no valid claim' };
}

/**
 * Checks a disclosure, given as text, bytes or object, without stopping at the first failure. `onCheck(row, i)` hears each
 * row. Returns {ok, complete, code, rows, stepHash, batchId}: `ok` when no row failed, `complete` when all rows passed, and
 * `code` the first failing code of spec section 6, or BAD_REQUEST with details for a wrong shape. `anchoring` is the answer of
 * GET /v1/flight/batches/ID/proof; `rpc` and `attester` as in verifyAnchor.
 */
export async function verifyDisclosure(input, { onCheck = () => {}, anchoring, rpc, attester, eas } = {}) {
  let d;
  try {
    d = read(input);
    checkDisclosureShape(d);
    for (const f of Object.keys(d.reveal)) canonicalJson(d.reveal[f].value);
    if (anchoring !== undefined) checkAnchoringShape(anchoring);
  } catch (e) { return refused(e); }
  const ctx = {};
  const ifValid = (check) => () => ctx.hash ? check(d, ctx) : { skip: 'the step is not valid' };
  const told = await runRows([
    ['step', 'STEP_SCHEMA', () => checkStepRow(d, ctx)],
    ['signature', 'SIGNATURE', () => checkSignatureRow(d, ctx)],
    ['place', 'STEP_BATCH', ifValid(checkPlaceRow)],
    ['path', 'PROOF', ifValid(checkPathRow)],
    ['links', 'PREV_HEAD', ifValid(checkLinksRow)],
    ['reveal', 'COMMITMENT', ifValid(checkRevealRow)],
    ['epoch', 'EPOCH', () => anchoring ? checkEpochRow(ctx.batchId, anchoring) : anchorRow()],
    ['anchor', 'ANCHOR', () => anchorRow(anchoring, { rpc, attester, eas })],
  ], onCheck);
  return { ...told, stepHash: ctx.hash ?? null, batchId: ctx.batchId };
}

// ==== Documents as bytes

/** Decodes UTF-8. From the first bad byte on the text becomes one lone surrogate, which the parser refuses in its place. */
function decode(bytes) {
  const prefix = (n, stream) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, n), { stream });
  const text = prefix(bytes.length, false), bad = utf8(text).findIndex((b, i) => b !== bytes[i]);
  return bad < 0 ? text : prefix(bad, true) + '\ud800';
}

// ==== Equivocation (spec section 5)

/** Why no honest history of one stream holds both headers, or null where one does. The order does not matter. */
export function conflict(a, b) {
  const differ = HEADER.filter((k) => a[k] !== b[k]);
  if (a.agent !== b.agent || a.stream !== b.stream || differ.every((k) => k === 'createdAt')) return null;
  if (a.index > b.index) [a, b] = [b, a];
  if (a.index === b.index) return 'SAME_INDEX';
  if (a.fromSeq <= b.toSeq && b.fromSeq <= a.toSeq) return 'OVERLAP';
  if (b.toSeq < a.fromSeq) return 'ORDER';
  const batches = b.index - a.index - 1, steps = b.fromSeq - a.toSeq - 1;
  if (batches === 0 && steps > 0) return 'ADJACENT_INDEX_GAP';
  if (steps < batches) return 'TOO_FEW_STEPS';
  return steps === 0 && b.prevHead !== a.head ? 'PREV_HEAD' : null;
}

/** Why two proven steps prove a broken chain: b follows a, yet does not link to it. Throws where they do not. */
function brokenChain(a, b) {
  if (a.step.agent !== b.step.agent || a.step.stream !== b.step.stream) fail('EVIDENCE', 'the steps are of two streams');
  if (b.step.seq !== a.step.seq + 1) fail('EVIDENCE', 'step b must follow step a');
  return b.step.prev === stepHash(a.step) ? null : 'BROKEN_CHAIN';
}

/** Re-checks equivocation evidence from itself alone: rows for both statements and for the contradiction. */
export async function verifyEquivocation(input, { onCheck = () => {} } = {}) {
  let e, chain;
  try {
    e = shape(read(input), { type: oneOf('karatum.equivocation.v1'), reason: text, a: anything, b: anything });
    chain = e.reason === 'BROKEN_CHAIN';
    for (const k of ['a', 'b']) {
      if (chain) checkDisclosureShape(e[k], k);
      else checkBatchShape(e[k], k), decodeSignature(e[k].signature);
      if (chain && Object.keys(e[k].reveal).length) fail('BAD_REQUEST', 'evidence must not open anything', `${k}.reveal`);
    }
  } catch (err) { return refused(err); }
  const statement = async (k) => {
    if (!chain) return checkSignatureRow({ batch: e[k] }, {});
    const { code, why, rows, stepHash } = await verifyDisclosure(e[k]);
    return { got: stepHash, rows, failed: code ? [code] : [], why: why ?? rows.find((r) => r.state === 'fail')?.why };
  };
  let proven = 0;
  const contradiction = () => {
    if (proven !== 2) fail('EVIDENCE', 'a statement is not proven');
    if (!chain && e.a.header.index > e.b.header.index) fail('EVIDENCE', 'the lower index must come first');
    const got = chain ? brokenChain(e.a, e.b) : conflict(e.a.header, e.b.header);
    return { got, want: e.reason, why: got !== e.reason && (got ? `the reason is ${got}` : 'one honest history holds both') };
  };
  return runRows([['a', 'SIGNATURE', () => statement('a')], ['b', 'SIGNATURE', () => statement('b')], ['contradiction', 'EVIDENCE', contradiction]],
    (row, i) => { if (row.state === 'pass') proven++; return onCheck(row, i); });
}

// ==== Anchors on a chain (seed section 2.7, spec section 7)

const SPEC = 'karatum.flightrec.v1';
export const SCHEMA = 'bytes32 epochRoot,uint32 batchCount,string spec';
export const SCHEMA_UID = keccak(SCHEMA, new Uint8Array(21)); // no resolver, not revocable
/** The EAS contract of each network that Karatum anchors on. */
export const EAS = {
  31337: '0x4200000000000000000000000000000000000021', 84532: '0x4200000000000000000000000000000000000021',
  11155111: '0xc2679fbd37d54388ce493f1db75320d236e1815e',
};

export const attestationData = (root, batchCount) => hex(concat([unhex(root, 32), word(batchCount), word(96), word(SPEC.length), utf8(SPEC), new Uint8Array(12)]));

/** The one calldata that anchors an epoch: attest((schema, (0, 0, false, 0, data, 0))). */
export function attestCalldata(root, batchCount) {
  const data = unhex(attestationData(root, batchCount));
  return hex(concat([keccak256('attest((bytes32,(address,uint64,bool,bytes32,bytes,uint256)))').subarray(0, 4),
    word(32), unhex(SCHEMA_UID), word(64), word(0), word(0), word(0), word(0), word(192), word(0), word(data.length), data]));
}

/** Checks that a batch is in an epoch: {batchId, epoch: {root, batchCount}, proof, anchor}. Only verifyAnchor checks the count on the chain. */
export async function verifyEpochProof(input) {
  try {
    const a = read(input);
    checkAnchoringShape(a);
    return verdict([await runRow('epoch', 'EPOCH', () => checkEpochRow(a.batchId, a))]);
  } catch (e) { return refused(e); }
}

async function callRpc(url, method, params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const answer = await fetch(url, { method: 'POST', redirect: 'error', headers: { 'content-type': 'application/json' }, body });
  const { result, error } = await answer.json();
  return error ? fail('RPC', `${method}: ${error.message}`) : result;
}

async function checkAnchorRow(a, { rpc, attester, eas }) {
  const { txHash, chainId } = a.anchor;
  if (!isHex(txHash, 32) || !isCount(chainId)) fail('ANCHOR', 'the anchor names no chain or no transaction');
  const call = typeof rpc === 'function' ? rpc : (method, params) => callRpc(rpc, method, params);
  const [id, tx, receipt] = [await call('eth_chainId', []), await call('eth_getTransactionByHash', [txHash]), await call('eth_getTransactionReceipt', [txHash])];
  const contract = (eas ?? EAS[chainId])?.toLowerCase(), lower = (v) => String(v).toLowerCase();
  if (!tx || !receipt) fail('ANCHOR', 'this RPC does not know the transaction');
  const why = Number(id) !== chainId ? `the RPC serves chain ${Number(id)}, the anchor is on ${chainId}`
    : lower(tx.hash) !== txHash || lower(receipt.transactionHash) !== txHash ? 'the RPC answered with another transaction'
    : !contract ? `no EAS contract is known for chain ${chainId}`
    : lower(tx.to) !== contract ? `the transaction went to ${tx.to}, not to EAS`
    : lower(tx.input) !== attestCalldata(a.epoch.root, a.epoch.batchCount) ? 'the transaction does not attest this epoch'
    : receipt.status !== '0x1' ? 'the transaction failed'
    : attester && lower(tx.from) !== lower(attester) ? `the attester is ${tx.from}, not ${attester}` : '';
  const seen = { attester: lower(tx.from), chainId, txHash, block: Number(receipt.blockNumber), blockHash: receipt.blockHash };
  return { ...seen, why, partial: attester ? '' : `unpinned attester ${lower(tx.from)}: anyone can attest` };
}

/**
 * Asks an RPC, a URL or a function (method, params), whether the epoch of an anchoring is attested: calldata byte for byte,
 * contract, status and attester. Without `attester` the result is not complete. `eas` names the contract on another chain.
 */
export async function verifyAnchor(input, { rpc, attester, eas } = {}) {
  try {
    const a = read(input);
    checkAnchoringShape(a);
    if (!a.anchor) fail('NOT_ANCHORED', 'the batch is not anchored yet', 'anchor');
    return verdict([await runRow('epoch', 'EPOCH', () => checkEpochRow(a.batchId, a)), await runRow('anchor', 'ANCHOR', () => anchorRow(a, { rpc, attester, eas }))]);
  } catch (e) { return refused(e); }
}

// ==== Batches and receipts by themselves

/** Refuses a header that is malformed or impossible by itself (spec section 4) and names its field. */
export function checkHeader(h) {
  shape(h, { ...HEADER_SHAPE, stream: checkStream });
  const bad = (message, field) => fail('BAD_REQUEST', message, field);
  if (h.toSeq < h.fromSeq) bad('is below fromSeq', 'toSeq');
  if (h.toSeq - h.fromSeq >= MAX_SPAN) bad(`a batch spans at most ${MAX_SPAN} steps`, 'toSeq');
  if (h.index === 0 && h.fromSeq !== 0) bad('must be 0 at index 0', 'fromSeq');
  if ((h.index === 0) !== (h.prevHead === ZERO)) bad('must be zero at index 0 and only there', 'prevHead');
  if (h.fromSeq < h.index) bad('is below index, yet every earlier batch held a step', 'fromSeq');
  if (h.toSeq === h.fromSeq && h.root !== leafHash(h.head)) bad('must be leaf(head) in a batch of one step', 'root');
  return h;
}

export const receiptText = (r) => lines('Karatum Flight Receipt v1', r, ['batchId', 'position', 'receivedAt', 'anchorBy']);
export const receiptGroupText = (g) => lines('Karatum Flight Receipt Group v1', g, ['root', 'size']);

/** Checks a node's receipt, through its group where there is one, and returns the node's address. Other keys of the answer are ignored. */
export function verifyReceipt(r) {
  shape({ batchId: r?.batchId, position: r?.position, receivedAt: r?.receivedAt, anchorBy: r?.anchorBy, node: r?.node, signature: r?.signature },
    { batchId: hash32, position: count, receivedAt: count, anchorBy: count, node: address, signature: anyHex }, { code: 'RECEIPT' });
  let signed = receiptText(r);
  if (r.group !== undefined) {
    shape(r.group, { root: hash32, size: count, proof: anything }, { code: 'RECEIPT', path: 'group' });
    shape(r.group.proof, PROOF, { code: 'RECEIPT', path: 'group.proof' });
    const { index, size, siblings } = r.group.proof;
    if (size !== r.group.size || foldProof(keccak(signed), index, size, siblings).root !== r.group.root) fail('RECEIPT', 'the receipt is not in its group');
    signed = receiptGroupText(r.group);
  }
  const signer = recover(textDigest(signed), r.signature);
  return signer === r.node ? signer : fail('RECEIPT', `the receipt is signed by ${signer}, not by ${r.node}`);
}

// ==== End of the verifier: everything above is a module by itself

export const VERSION = '1.0.0';

// ---- Trees and rating: what a recorder or a node makes

function levels(items) {
  if (!items.length) fail('PROOF', 'a tree needs an item');
  const out = [items.map(leafHash)];
  for (let row = out[0]; row.length > 1; out.push(row)) {
    row = Array.from({ length: Math.ceil(row.length / 2) }, (_, i) => 2 * i + 1 < row.length ? nodeHash(row[2 * i], row[2 * i + 1]) : row[2 * i]);
  }
  return out;
}

export const merkleRoot = (items) => levels(items).at(-1)[0];

export function merkleProof(items, index) {
  const siblings = levels(items).slice(0, -1).flatMap((row, level) => row[Math.floor(index / 2 ** level) ^ 1] ?? []);
  return { index, size: items.length, siblings };
}

/** The field rating (spec section 8): Wilson lower bound times 24, or null where nothing is decided. */
export function rating(confirmed, contradicted) {
  const n = confirmed + contradicted, z = 1.959963984540054;
  if (n === 0) return null;
  const p = confirmed / n;
  const low = (p + z * z / (2 * n) - z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n);
  return Math.floor(24 * Math.max(low, 0) * 100 + 0.5) / 100;
}

// ==== Part 2: the recorder

// ---- Signing. BigInt arithmetic is not constant-time: use a raw key only for throw-away test agents.

const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((p) => n % p)) PRIMES.push(n);
const fraction = (x) => (x - Math.floor(x)) * 2 ** 32 | 0;
const SHA_K = PRIMES.map((p) => fraction(Math.cbrt(p))), SHA_H = PRIMES.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

function sha256(...parts) {
  const data = concat(parts), padded = new Uint8Array((data.length + 72) & ~63), view = new DataView(padded.buffer);
  padded.set(data);
  padded[data.length] = 0x80;
  view.setBigUint64(padded.length - 8, BigInt(data.length) * 8n);
  const h = Int32Array.from(SHA_H), w = new Int32Array(64), turn = (x, n) => x >>> n | x << (32 - n);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = i < 16 ? view.getInt32(block + 4 * i)
        : w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >>> 3) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ y >>> 10);
    }
    let [a, b, c, d, e, f, g, k] = h;
    for (let i = 0; i < 64; i++) {
      const t1 = k + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + (e & f ^ ~e & g) + SHA_K[i] + w[i];
      const t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + (a & b ^ a & c ^ b & c);
      [a, b, c, d, e, f, g, k] = [t1 + t2 | 0, a, b, c, d + t1 | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, k].forEach((x, i) => { h[i] += x; });
  }
  return concat([...h].map((x) => [x >>> 24, x >>> 16, x >>> 8, x]));
}

function hmac(key, ...parts) {
  const pad = (b) => Uint8Array.from({ length: 64 }, (_, i) => (key[i] ?? 0) ^ b);
  return sha256(pad(0x5c), sha256(pad(0x36), ...parts));
}

const secretOf = (key) => {
  const d = toInt(unhex(key, 32));
  return d > 0n && d < N ? d : fail('SIGNER', 'not a secp256k1 private key');
};
export const addressOfKey = (key) => addressOf(affine(multiply(secretOf(key), 0n, G)));

/** Signs a 32-byte digest with a raw key, deterministically (RFC 6979), s in the lower half. */
export function signDigest(key, digest) {
  const d = secretOf(key), z = toInt(digest), seed = [word(d), word(z % N)];
  let k = new Uint8Array(32), v = new Uint8Array(32).fill(1);
  for (const tag of [0, 1]) { k = hmac(k, v, [tag], ...seed); v = hmac(k, v); }
  for (;;) {
    v = hmac(k, v);
    const nonce = toInt(v);
    if (nonce > 0n && nonce < N) {
      const [x, y] = affine(multiply(nonce, 0n, G)), s = mod(invert(nonce, N) * (z + x * d), N), high = s > N / 2n;
      if (x < N && s > 0n) return hex(concat([word(x), word(high ? N - s : s), [27 + (Number(y & 1n) ^ Number(high))]]));
    }
    k = hmac(k, v, [0]);
    v = hmac(k, v);
  }
}

/** The signer of a raw key, an ethers Signer (5 or 6), a viem account or a viem wallet client: {address, sign(header, scheme)}. */
async function adaptSigner(signer) {
  if (typeof signer === 'string') {
    try {
      return { address: addressOfKey(signer), sign: (h, scheme) => signDigest(signer, batchDigest(h, scheme)) };
    } catch (e) { fail(e.code, e.message, 'signer'); }
  }
  const ethers = typeof signer?.getAddress === 'function', account = signer?.account;
  const address = ethers ? await signer.getAddress() : account?.address ?? signer?.address;
  if (!isHex(address?.toLowerCase?.(), 20)) fail('SIGNER', 'it has no address; give a viem account, a wallet client that has an account, an ethers Signer or a raw key as 0x hex', 'signer');
  const typed = (h) => ({ ...h, ...Object.fromEntries(TYPES.FlightBatch.filter((t) => t.type === 'uint64').map((t) => [t.name, BigInt(h[t.name])])) });
  const who = account ? { account } : {};
  const sign = (h, scheme) => scheme === 'eip191'
    ? (ethers ? signer.signMessage(batchText(h)) : signer.signMessage({ ...who, message: batchText(h) }))
    : (ethers ? signer[signer.signTypedData ? 'signTypedData' : '_signTypedData'](DOMAIN, TYPES, typed(h)) : signer.signTypedData({ ...who, domain: DOMAIN, types: TYPES, primaryType: 'FlightBatch', message: typed(h) }));
  return { address: address.toLowerCase(), sign };
}

// ---- Journals: lines of JSON, appended and never changed. They hold plaintext and salts; guard them like any log.

/** A journal that lasts as long as the process. Its stream is drawn anew each time. */
export class MemoryJournal {
  #lines = [];
  load(each) { this.#lines.forEach((line, ref) => each(line, ref)); }
  cut(ref) { this.#lines.length = ref; }
  append(line) { return this.#lines.push(line) - 1; }
  mark() { return this.#lines.length; }
  undo(mark) { this.cut(mark); }
  read(ref) { return this.#lines[ref]; }
  sync() {}
  close() {}
}

/**
 * A journal in a file, for Node and Deno: `await FileJournal.open(path, {fsync})`. `fsync` says when steps are flushed to the
 * disk: 'always', 'interval' (each second) or 'never'; batches always are, before they are sent. PATH.lock excludes others.
 */
export class FileJournal {
  static async open(path, { fsync = 'interval' } = {}) {
    const [fs, { dirname, resolve }, { Buffer }, { default: process }] = await Promise.all(['fs', 'path', 'buffer', 'process'].map((m) => import(`node:${m}`)));
    if (!['always', 'interval', 'never'].includes(fsync)) fail('CONFIG', 'fsync must be always, interval or never');
    if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory()) fail('JOURNAL', `${path} is a directory, maybe a journal of the karatum command; name a file`);
    const journal = new FileJournal();
    try {
      Object.assign(journal, { fs, Buffer, fsync, path: resolve(path), torn: 0, lock: takeLock(fs, process, `${path}.lock`), timer: null });
      try {
        journal.fd = fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
      } catch (e) { journal.#unlock(); throw e; }
      journal.size = fs.fstatSync(journal.fd).size;
      if (process.platform !== 'win32') { // the directory must know the file, too
        const dir = fs.openSync(dirname(path), 'r');
        try { fs.fsyncSync(dir); } finally { fs.closeSync(dir); }
      }
    } catch (e) { e instanceof FlightError ? fail(e.code, e.message) : fail('JOURNAL', `the journal ${path} cannot be opened: ${e.message}`); }
    return journal;
  }

  /** Calls each(line, ref) for every whole line and cuts off a last line that a crash tore, of `torn` bytes. */
  load(each) {
    const { Buffer } = this;
    let rest = Buffer.alloc(0), start = 0;
    for (let at = 0; at < this.size;) {
      const chunk = Buffer.alloc(Math.min(1 << 20, this.size - at));
      at += this.fs.readSync(this.fd, chunk, 0, chunk.length, at);
      const data = rest.length ? Buffer.concat([rest, chunk]) : chunk;
      let from = 0;
      for (let end; (end = data.indexOf(10, from)) >= 0; from = end + 1) {
        each(data.subarray(from, end), [start + from, end - from]);
      }
      start += from;
      rest = data.subarray(from);
    }
    if (rest.length) { this.torn = rest.length; this.#truncate(start); }
  }

  /** Takes out all from a line on. Nothing is thrown away: it stands in PATH.damaged. */
  cut([offset]) {
    const aside = this.fs.openSync(`${this.path}.damaged`, 'a', 0o600);
    try {
      for (let at = offset; at < this.size;) {
        const bytes = this.read([at, Math.min(1 << 20, this.size - at)]);
        for (let done = 0; done < bytes.length;) done += this.fs.writeSync(aside, bytes, done);
        at += bytes.length;
      }
      this.fs.fsyncSync(aside);
    } finally { this.fs.closeSync(aside); }
    this.#truncate(offset);
  }

  #truncate(offset) {
    this.undo(offset);
    this.sync();
  }

  mark() { return this.size; }

  /** Takes out what was appended since the mark, half lines too. */
  undo(mark) {
    this.size = mark;
    this.fs.ftruncateSync(this.fd, mark);
  }

  append(line) {
    const bytes = this.Buffer.from(`${line}\n`), ref = [this.size, bytes.length - 1];
    for (let done = 0; done < bytes.length;) done += this.fs.writeSync(this.fd, bytes, done, bytes.length - done, this.size + done);
    this.size += bytes.length;
    if (this.fsync === 'always') this.sync();
    if (this.fsync === 'interval') {
      this.timer ??= setTimeout(() => { this.timer = null; try { this.sync(); } catch (e) { this.failed = e; } }, 1000);
      this.timer.unref?.();
    }
    return ref;
  }

  read([offset, length]) {
    const bytes = this.Buffer.alloc(length);
    this.fs.readSync(this.fd, bytes, 0, length, offset);
    return bytes;
  }

  /** Returns when all that was appended is on the disk. After one failure nothing is known, so it fails for good. */
  sync() {
    if (this.failed) throw this.failed;
    try { this.fs.fsyncSync(this.fd); } catch (e) { this.failed = e; throw e; }
  }

  close() {
    if (this.fd === null) return;
    clearTimeout(this.timer);
    try { this.sync(); } finally {
      this.fs.closeSync(this.fd);
      this.fd = null;
      this.#unlock();
    }
  }

  #unlock() {
    this.fs.rmSync(this.lock, { force: true });
    heldLocks.delete(this.lock);
  }
}

const heldLocks = new Set(); // by this process, which its own pid in a stale file must not be taken for

/** Makes the lock file, which names its holder by pid and start time; a dead holder's is replaced. */
function takeLock(fs, process, path) {
  const born = (pid) => { try { return fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop().split(' ')[19]; } catch { return ''; } };
  const alive = (pid) => { try { process.kill(pid, 0); return true; } catch (e) { return e.code === 'EPERM'; } };
  const create = () => { try { fs.writeFileSync(path, `${process.pid} ${born(process.pid)}\n`, { flag: 'wx', mode: 0o600 }); heldLocks.add(path); return true; } catch (e) { if (e.code !== 'EEXIST') throw e; return false; } };
  const busy = () => {
    let pid = '';
    try { [pid] = fs.readFileSync(path, 'latin1').trim().split(' '); } catch { /* it went away just now */ }
    fail('JOURNAL_LOCKED', `${pid ? `process ${pid}` : 'another process'} has the journal ${path.slice(0, -5)} open; end it, or give this recorder a journal of its own`);
  };
  const stale = () => {
    const [pid, start = ''] = fs.readFileSync(path, 'utf8').trim().split(' ');
    if (pid === String(process.pid)) return !heldLocks.has(path);
    return pid !== '' && (!alive(Number(pid)) || (start !== '' && born(pid) !== '' && start !== born(pid)));
  };
  path = fs.realpathSync.native(path.replace(/[^/\\]*$/, '') || '.') + '/' + path.match(/[^/\\]*$/)[0];
  if (create()) return path;
  if (!stale()) busy();
  try { fs.mkdirSync(`${path}.takeover`); } catch { busy(); } // one at a time, or two could each remove the other's lock
  try {
    if (stale()) fs.unlinkSync(path);
    return create() ? path : busy();
  } finally { fs.rmdirSync(`${path}.takeover`); }
}

// ---- The recorder (spec section 10)

const webcrypto = globalThis.crypto ?? (await import('node:crypto')).webcrypto; // Node 18 has no global
const randomHex = (n) => hex(webcrypto.getRandomValues(new Uint8Array(n)));
const SECOND = 1000, DAY = 86400 * SECOND, ANSWER_BYTES = 1 << 20;

/** Lower-cases the addresses of a claim, which wallets write with a checksum. */
function lowerClaim(claim) {
  const out = { ...claim };
  for (const k of ['to', 'token']) if (typeof out[k] === 'string') out[k] = out[k].toLowerCase();
  checkClaim(out);
  return out;
}

/**
 * Records what an agent does, signs it in batches and sends them to a node. `record` and `flush` never throw: what goes
 * wrong is told to onError(error), whose `code` says what. Open one with
 *
 *   const recorder = await Recorder.open({ node: 'http://127.0.0.1:8080', signer, name: 'trader', journal: await FileJournal.open('trader.jsonl') });
 *   recorder.record({ kind: 'tool', name: 'swap', args: {...}, result: {...} });
 *   await recorder.close();
 *
 * signer: a viem account or wallet client, an ethers Signer, or a raw key as hex (throw-away test keys only).
 * scheme 'eip712' | 'eip191'; stream: its name, else NAME-<8 random hex>; intervalMs between batches; retainPlaintext false
 * keeps commitments only, so nothing can be opened later; maxSteps of one batch; nodeAddress pins who must sign receipts:
 * without it the journal keeps to the key that signed its first one, and another key's receipt does not count; fetch and now (unix ms) for tests. Options may be wrong, and the journal locked or corrupt: only then open throws.
 */
export class Recorder {
  #o; #signer; #journal; #streams = new Map(); #current = null; #timer = null; #due = 0; #running = null; #failures = 0; #notBefore = 0; #closed = false; #signedBy = null;

  static async open(options) {
    const r = new Recorder();
    r.#o = { scheme: 'eip712', name: 'agent', intervalMs: 120 * SECOND, retainPlaintext: true, maxSteps: MAX_SPAN, backoffMs: SECOND, maxBackoffMs: 300 * SECOND,
      timeoutMs: 30 * SECOND, onError: (e) => console.error(`karatum: ${e.code}: ${e.message}`), fetch: (...a) => fetch(...a), now: () => Date.now(), ...options };
    r.#journal = options.journal ?? new MemoryJournal();
    try {
      if (!/^https?:\/\/[^\s\/?#]+(\/[^\s?#]*)?$/.test(r.#o.node)) fail('CONFIG', `node is ${r.#o.node}; it must be an http or https URL such as http://127.0.0.1:8080`);
      if (!['eip712', 'eip191'].includes(r.#o.scheme)) fail('CONFIG', 'scheme must be eip712 or eip191');
      if (!(r.#o.maxSteps >= 1 && r.#o.maxSteps <= MAX_SPAN)) fail('CONFIG', `maxSteps must be 1 to ${MAX_SPAN}`);
      if (r.#o.nodeAddress && !isHex(String(r.#o.nodeAddress).toLowerCase(), 20)) fail('CONFIG', `nodeAddress is ${r.#o.nodeAddress}; it must be an address, 0x and 40 hex digits`);
      r.#o.node = r.#o.node.replace(/\/+$/, '');
      r.#signer = await adaptSigner(options.signer);
      r.#load();
    } catch (e) { r.#journal.close(); throw e; }
    if (r.#unsent()) r.#schedule(r.#o.intervalMs);
    return r;
  }

  get address() { return this.#signer.address; }
  get stream() { return this.#current.name; }
  /** The address whose receipts count; null before the first one where the option does not say it. */
  get nodeAddress() { return this.#o.nodeAddress?.toLowerCase() || this.#signedBy; }
  /** Steps that no receipt covers yet. */
  get waiting() {
    const cur = this.#current, carried = this.#streams.has(cur.carry?.stream) ? cur.carry.count : 0;
    return Math.max(cur.hashes.length, carried) - this.#delivered(cur);
  }

  // Journal lines, by "type": stream {agent, stream, carry?}, step {hash, step, openings?}, batch {header, scheme, signature},
  // receipt {index, receipt}. A batch line is on the disk before its first byte is sent, so its index is never signed again.

  #load() {
    let cut = null, why = '', count = 0;
    this.#journal.load((line, ref) => {
      count++;
      try {
        const entry = parse(line, DOCUMENT_DEPTH);
        if (cut === null) this.#apply(entry, ref);
        else if (entry.type === 'batch') fail('JOURNAL_CORRUPT', `${this.#place()}: ${why}, yet a signed batch follows; restore the journal, or move it away to begin a new one`);
      } catch (e) {
        if (/^JOURNAL_/.test(e.code)) throw e;
        if (cut === null) [cut, why] = [ref, `line ${count} is damaged (${e.message})`];
      }
    });
    if (cut !== null) this.#cut(cut, why);
    if (this.#journal.torn) this.#report(new FlightError('JOURNAL_TORN', `${this.#place()}: ${this.#journal.torn} bytes after the last whole line, which a crash left, are cut off`));
    if (!this.#current) this.#begin(this.#o.stream ?? this.#fresh(this.#o.name));
    this.#dropDamaged();
    this.#carry();
  }

  #place() { return this.#journal.path ?? 'the journal'; }

  #cut(ref, why) {
    this.#journal.cut(ref);
    this.#report(new FlightError('JOURNAL_DAMAGED', `${this.#place()}: ${why}; it was in no signed batch, and stands with all that follows in ${this.#place()}.damaged now`));
  }

  #apply(entry, ref) {
    const cur = this.#current, wrong = () => fail('CHAIN', 'the line does not continue the journal');
    if (entry.type === 'stream') {
      if (entry.agent !== this.address) fail('JOURNAL_AGENT', `the journal is of ${entry.agent}, the signer is ${this.address}`);
      if (checkStream(entry.stream) !== true) wrong();
      this.#current = { name: entry.stream, hashes: [], refs: [], batches: [], carry: entry.carry, checked: false };
      this.#streams.set(entry.stream, this.#current);
    } else if (entry.type === 'step') {
      const { step, hash } = entry;
      if (step.stream !== cur.name || step.seq !== cur.hashes.length || step.prev !== (cur.hashes.at(-1) ?? ZERO) || !isHex(hash, 32)) wrong();
      cur.hashes.push(hash);
      cur.refs.push(ref);
    } else if (entry.type === 'batch') {
      const h = entry.header;
      if (h.index !== cur.batches.length || h.fromSeq !== this.#signed(cur) || h.head !== cur.hashes[h.toSeq]) wrong();
      cur.batches.push({ header: h, scheme: entry.scheme, signature: entry.signature, receipt: null });
    } else if (entry.type === 'receipt') {
      if (!cur.batches[entry.index]) wrong();
      cur.batches[entry.index].receipt = entry.receipt;
      this.#signedBy = entry.receipt.node;
    } else wrong();
  }

  /** Steps that are still to be signed must hash to what the journal says; a flipped bit is cut off with all that follows. */
  #dropDamaged() {
    const cur = this.#current;
    for (let seq = this.#signed(cur); seq < cur.refs.length; seq++) {
      if (stepHash(this.#entry(cur.refs[seq]).step) === cur.hashes[seq]) continue;
      this.#cut(cur.refs[seq], `step ${seq} of ${cur.name} does not hash to what its line says`);
      cur.refs.length = cur.hashes.length = seq;
    }
  }

  #entry(ref) { return parse(this.#journal.read(ref), DOCUMENT_DEPTH); }
  #signed(cur) { return cur.batches.length ? cur.batches.at(-1).header.toSeq + 1 : 0; }
  #delivered(cur) { const last = cur.batches.findLastIndex((b) => b.receipt); return last < 0 ? 0 : cur.batches[last].header.toSeq + 1; }
  #unsent() { return this.waiting > 0; }
  #fresh(name) { return `${[...name].slice(0, 55).join('')}-${randomHex(4).slice(2)}`; }

  #write(entry) {
    const line = canonicalJson(entry, DOCUMENT_DEPTH, 8 * MAX_BYTES), mark = this.#journal.mark();
    let ref;
    try {
      ref = this.#journal.append(line);
    } catch (e) { // a full disk: leave no half line for the next one to grow on
      this.#journal.undo(mark);
      fail('JOURNAL', `${this.#place()} cannot be written: ${e.message}`);
    }
    this.#apply(entry, ref);
  }

  #sync() {
    try { this.#journal.sync(); } catch (e) { fail('JOURNAL', `${this.#place()} cannot be flushed to the disk: ${e.message}`); }
  }

  #begin(stream, carry) {
    const ok = checkStream(stream);
    if (ok !== true) fail('CONFIG', ok, 'stream');
    this.#write({ type: 'stream', agent: this.address, stream, carry });
    this.#sync();
  }

  /** Leaves the stream, of which the node knows another history, and carries what it has not stored into a new one. */
  #restart(error) {
    this.#report(error);
    const old = this.#current, fromSeq = this.#delivered(old);
    this.#begin(this.#fresh(this.#o.stream ?? this.#o.name), { stream: old.name, fromSeq, count: old.hashes.length - fromSeq });
    this.#carry();
  }

  /** Records the old stream's undelivered steps again, linked anew; a crash in between is made up for at the next open. */
  #carry() {
    const cur = this.#current, old = this.#streams.get(cur.carry?.stream);
    if (!old || cur.hashes.length >= cur.carry.count) return;
    for (let seq = cur.hashes.length; seq < cur.carry.count; seq++) {
      const { step, openings } = this.#entry(old.refs[cur.carry.fromSeq + seq]);
      const moved = { ...step, stream: cur.name, seq, prev: cur.hashes.at(-1) ?? ZERO };
      this.#write({ type: 'step', hash: stepHash(moved), step: moved, openings });
    }
    this.#sync();
  }

  #report(error) {
    if (!(error instanceof Error) || typeof error.code !== 'string') error = new FlightError('INTERNAL', String(error?.message ?? error)); // a signer may throw anything
    try { this.#o.onError(error); } catch { /* a recorder never makes the agent fail */ }
  }

  /**
   * Records one step: {kind, status, name, at, prompt, args, result, claim, chainId, txHash}. The four in the middle are
   * values, committed under fresh salts; a field that cannot be committed is left out and reported. Returns {stream, seq,
   * hash}, or null where nothing could be recorded.
   */
  record(input) {
    try {
      if (this.#closed) fail('CLOSED', 'the recorder is closed');
      this.#carry(); // where a full disk had stopped it
      return this.#record(input);
    } catch (e) {
      this.#report(e);
      return null;
    }
  }

  #record(input) {
    const cur = this.#current, seq = cur.hashes.length, openings = {};
    const step = { v: 'karatum.fr.v1', agent: this.address, stream: cur.name, seq, prev: cur.hashes.at(-1) ?? ZERO,
      at: input.at ?? this.#o.now(), kind: input.kind ?? 'tool', status: input.status ?? 'ok' };
    const keep = (field, run) => {
      try { run(); } catch (e) {
        this.#report(e instanceof FlightError ? Object.assign(e, { field: e.field ?? field }) : new FlightError('UNSUPPORTED_TYPE', String(e?.message ?? e), field));
      }
    };
    const put = (field, value) => {
      const salt = randomHex(32), canonical = canonicalJson(value);
      step[field] = keccak('karatum.fr.v1.commit', unhex(salt), canonical);
      openings[field] = { salt, value: parse(canonical) };
    };
    for (const f of FIELDS) if (input[f] !== undefined) keep(f, () => put(f, f === 'claim' ? lowerClaim(input[f]) : input[f]));
    if (!Object.keys(openings).length) put('args', null);
    if (input.name !== undefined) keep('name', () => { const ok = STEP.name(input.name); ok === true ? step.name = input.name : fail('STEP_SCHEMA', ok, 'name'); });
    if (input.chainId !== undefined || input.txHash !== undefined) keep('txHash', () => {
      const chainId = typeof input.chainId === 'bigint' ? Number(input.chainId) : input.chainId, txHash = String(input.txHash).toLowerCase();
      isCount(chainId) && isHex(txHash, 32) ? Object.assign(step, { chainId, txHash }) : fail('STEP_SCHEMA', 'chainId and txHash come together', 'txHash');
    });
    const unknown = Object.keys(input).filter((k) => !FIELDS.includes(k) && !['at', 'kind', 'status', 'name', 'chainId', 'txHash'].includes(k));
    if (unknown.length) this.#report(new FlightError('STEP_SCHEMA', 'unknown key, left out', unknown[0]));
    const hash = stepHash(checkStep(step));
    this.#write({ type: 'step', hash, step, openings: this.#o.retainPlaintext ? openings : undefined });
    this.#schedule(cur.hashes.length - this.#signed(cur) >= this.#o.maxSteps ? 0 : this.#o.intervalMs);
    return { stream: cur.name, seq, hash };
  }

  #schedule(delay) {
    const due = now() + delay;
    if (this.#closed || this.#running || (this.#timer && this.#due <= due)) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => { this.#timer = null; this.#send(); }, delay);
    this.#timer.unref?.(); // an agent may end while a batch waits: close() delivers it, or the next open
  }

  /** Tries to deliver all that waits, now unless a node asked to wait. Resolves to {ok, waiting}; the rest is retried later. */
  async flush() { return this.#send(); }

  #send() {
    clearTimeout(this.#timer);
    this.#timer = null;
    return this.#running ??= this.#drain().finally(() => {
      this.#running = null;
      if (this.#unsent()) this.#schedule(this.#failures ? Math.max(this.#backoff(), this.#notBefore - this.#o.now()) : this.#o.intervalMs);
    });
  }

  /** Exponential with jitter: half of it fixed, half random. */
  #backoff() { return Math.min(this.#o.maxBackoffMs, this.#o.backoffMs * 2 ** Math.min(this.#failures - 1, 20)) * (0.5 + Math.random() / 2); }

  async #drain() {
    let restarts = 0;
    try {
      while (this.#unsent() && this.#o.now() >= this.#notBefore) {
        const refusal = await this.#sendOne();
        if (refusal) {
          this.#restart(refusal);
          if (++restarts > 1) fail('NODE_REFUSES', 'the node refuses every new stream');
        } else this.#failures = 0;
      }
    } catch (e) {
      this.#failures++;
      this.#report(e);
    }
    return { ok: !this.#unsent(), waiting: this.waiting };
  }

  /** Delivers one batch. Returns the error that ends the stream, if one does; throws where trying again later may help. */
  async #sendOne() {
    this.#carry(); // where a full disk had stopped it
    const cur = this.#current;
    let batch = cur.batches.at(-1);
    if (!batch || batch.receipt) {
      const ahead = cur.checked ? null : await this.#nodeAhead(cur);
      if (ahead) return ahead;
      cur.checked = true;
      batch = await this.#sign(cur);
    }
    this.#sync(); // the batch and its steps, before the first byte leaves
    const body = canonicalJson({ header: batch.header, scheme: batch.scheme, signature: batch.signature });
    const { status, answer } = await this.#request('POST', '/v1/flight/batches', body);
    const error = answer?.error;
    if (status === 409 && error?.code === 'EQUIVOCATION') {
      return Object.assign(new FlightError('EQUIVOCATION', `the node holds another history of stream ${cur.name}`), { evidence: error.details?.evidence });
    }
    if (status !== 200 && status !== 201) this.#refused(status, error);
    const signer = verifyReceipt(answer), { node: url } = this.#o;
    if (answer.batchId !== batchId(batch.header)) {
      if (answer.duplicate === true) { // an old copy of this journal sent it
        return new FlightError('NODE_AHEAD', `the node holds batch ${batch.header.index} of stream ${cur.name} under another signature`);
      }
      fail('RECEIPT', `the receipt from ${url} is of another batch`);
    }
    if (this.nodeAddress && signer !== this.nodeAddress) {
      fail('RECEIPT', `the receipt from ${url} is signed by ${signer}, but ${this.#o.nodeAddress ? 'nodeAddress' : `the receipts in ${this.#place()}`} pins the node's key to ${this.nodeAddress}; `
        + `it does not count, and the batch is sent again. If the node's operator confirms the new key, or you changed nodes, pass nodeAddress: '${signer}'; if not, somebody else answers in the node's place`);
    }
    const { position, receivedAt, anchorBy, node, signature, group } = answer;
    this.#write({ type: 'receipt', index: batch.header.index, receipt: { batchId: answer.batchId, position, receivedAt, anchorBy, node, signature, group } });
    return null;
  }

  #refused(status, error) {
    const { node } = this.#o;
    if (error?.code) fail(String(error.code), `the node at ${node} answers ${status}: ${error.message}`);
    fail('HTTP', `${node} answers ${status}, which is no answer of a Karatum node; is the URL right?`);
  }

  /** After each open, before the first signature: does the node know more of this stream than the journal? */
  async #nodeAhead(cur) {
    const { status, answer } = await this.#request('GET', `/v1/flight/agents/${this.address}/streams/${encodeURIComponent(cur.name)}`);
    const unknown = status === 404 && answer?.error?.code === 'UNKNOWN_STREAM', { node: url } = this.#o;
    if (status !== 200 && !unknown) this.#refused(status, answer?.error);
    const head = unknown ? null : answer?.head, delivered = this.#delivered(cur);
    if (delivered && !(head?.toSeq + 1 >= delivered)) {
      this.#report(new FlightError('NODE_BEHIND', `the node at ${url} lacks batches of stream ${cur.name} that it had acknowledged; to deliver them again: karatum journal send ${this.#place()} --node ${url}`));
    }
    if (!head) return null;
    const ours = cur.batches[head.index]?.header;
    return ours?.head === head.head && ours?.toSeq === head.toSeq ? null
      : new FlightError('NODE_AHEAD', `the node knows batch ${head.index} of stream ${cur.name}, the journal does not: an old copy, or a lost tail`);
  }

  async #sign(cur) {
    const fromSeq = this.#signed(cur), toSeq = Math.min(cur.hashes.length, fromSeq + this.#o.maxSteps) - 1;
    const header = checkHeader({ agent: this.address, stream: cur.name, index: cur.batches.length, fromSeq, toSeq,
      prevHead: cur.hashes[fromSeq - 1] ?? ZERO, head: cur.hashes[toSeq], root: merkleRoot(cur.hashes.slice(fromSeq, toSeq + 1)),
      createdAt: Math.floor(this.#o.now() / SECOND) });
    const { scheme } = this.#o, { signature } = decodeSignature(await this.#signer.sign(header, scheme));
    if (batchSigner({ header, scheme, signature }) !== this.address) fail('SIGNER', 'the signer signed with another key or another domain');
    this.#write({ type: 'batch', header, scheme, signature });
    return cur.batches.at(-1);
  }

  async #request(method, path, body) {
    const { node } = this.#o, chunks = [];
    let answer;
    try {
      answer = await this.#o.fetch(node + path, { method, body, redirect: 'error', headers: body ? { 'content-type': 'application/json' } : {}, signal: AbortSignal.timeout(this.#o.timeoutMs) });
      const reader = answer.body?.getReader();
      for (let size = 0, part; reader && !(part = await reader.read()).done;) {
        if ((size += part.value.length) > ANSWER_BYTES) { await reader.cancel(); fail('HTTP', `the answer of ${node} is too long`); }
        chunks.push(part.value);
      }
    } catch (e) {
      if (e instanceof FlightError) throw e;
      const why = e?.cause?.message || e?.cause?.code || e?.message || e; // Node says "fetch failed" and keeps the reason
      fail('NETWORK', `${node} cannot be reached (${why}); the steps wait in the journal and are sent later`);
    }
    const wait = answer.headers.get('retry-after'), seconds = /^\d+$/.test(wait ?? '') ? Number(wait) * SECOND : wait ? Date.parse(wait) - this.#o.now() : 0;
    if (wait && !answer.ok) this.#notBefore = this.#o.now() + Math.min(Math.max(seconds || 0, 0), DAY);
    let json = null;
    try { json = parse(concat(chunks), DOCUMENT_DEPTH); } catch { if (answer.ok) fail('HTTP', `${node} answers ${answer.status} without JSON, which is no answer of a Karatum node; is the URL right?`); }
    return { status: answer.status, answer: json };
  }

  /** Opens fields of one recorded step: the bundle that verifyDisclosure checks. Throws where the step is not signed yet or not retained. */
  disclose({ seq, reveal = [], stream = this.stream }) {
    const cur = this.#streams.get(stream) ?? fail('NOT_FOUND', 'the journal has no such stream', 'stream');
    const batch = cur.batches.find((b) => b.header.fromSeq <= seq && seq <= b.header.toSeq) ?? fail('NOT_SIGNED', `step ${seq} is in no signed batch yet`, 'seq');
    const { step, openings = {} } = this.#entry(cur.refs[seq]), { header, scheme, signature } = batch;
    const opened = reveal.map((f) => [f, has(openings, f) ? openings[f] : fail('NOT_RETAINED', 'the journal does not hold this field', f)]);
    const proof = merkleProof(cur.hashes.slice(header.fromSeq, header.toSeq + 1), seq - header.fromSeq);
    return { step, reveal: Object.fromEntries(opened), proof, batch: { header, scheme, signature } };
  }

  /** Delivers what it can and closes the journal. */
  async close() {
    if (this.#closed) return { ok: !this.#unsent(), waiting: this.waiting };
    const out = await this.flush();
    this.#closed = true;
    clearTimeout(this.#timer);
    try { await this.#running; this.#journal.close(); } catch (e) { this.#report(e); }
    return out;
  }
}

// ==== Part 3: the command line

/** Compares every value of a vector file's canonicalJson and flight with what this file computes: {passed, failed, notCovered}. */
export async function conformance(vectors, print = console.log) {
  let passed = 0, failed = 0;
  const check = (path, got, want) => {
    const [g, w] = [got, want].map((v) => v === undefined ? 'nothing' : canonicalJson(v));
    if (g === w) { passed++; return; }
    failed++;
    print(`${path}\n  got  ${g}\n  want ${w}`);
  };
  const attempt = (run) => { try { return run(); } catch (e) { return e.code ?? String(e); } };
  const each = (list, path, run) => list.forEach((v, i) => run(v, `${path}[${i}]`));

  each(vectors.canonicalJson.cases, 'canonicalJson.cases', (c, p) => {
    check(`${p}.canonical`, attempt(() => canonicalJson(parse(c.raw))), c.canonical);
    check(`${p}.keccak`, keccak(c.canonical), c.keccak);
  });
  each(vectors.canonicalJson.errors, 'canonicalJson.errors', (c, p) => {
    check(`${p}.code`, attempt(() => canonicalJson(parse(c.rawHex ? unhex(c.rawHex) : c.raw))), c.code);
  });

  const f = vectors.flight, covered = new Set(['privateKey', 'stream']);
  const section = (name, run) => { covered.add(name); run(f[name], `flight.${name}`); };
  const batch = (b, p) => {
    check(`${p}.batchId`, batchId(b.header), b.batchId);
    check(`${p}.eip191Text`, batchText(b.header), b.eip191Text);
    for (const scheme of Object.keys(b.signatures)) {
      check(`${p}.signatures.${scheme}`, signDigest(f.privateKey, batchDigest(b.header, scheme)), b.signatures[scheme]);
      check(`${p}.signatures.${scheme} signer`, attempt(() => batchSigner({ header: b.header, scheme, signature: b.signatures[scheme] })), b.header.agent);
    }
  };
  const statement = (b) => ({ header: b.header, scheme: 'eip712', signature: b.signatures.eip712 });

  section('agent', (v, p) => check(p, addressOfKey(f.privateKey), v));
  section('commits', (list, p) => each(list, p, (c, q) => {
    check(`${q}.canonical`, attempt(() => canonicalJson(parse(c.raw))), c.canonical);
    check(`${q}.commitment`, attempt(() => commit(parse(c.raw), c.salt)), c.commitment);
  }));
  section('claims', (list, p) => each(list, p, (c, q) => check(q, attempt(() => checkClaim(c)), true)));
  section('steps', (list, p) => each(list, p, (s, q) => {
    check(`${q}.step.stream`, s.step.stream, f.stream);
    check(`${q}.canonical`, attempt(() => canonicalJson(checkStep(s.step))), s.canonical);
    check(`${q}.stepHash`, stepHash(s.step), s.stepHash);
    check(`${q}.leaf`, leafHash(s.stepHash), s.leaf);
    for (const field of Object.keys(s.openings)) check(`${q}.openings.${field}`, attempt(() => commit(s.openings[field].value, s.openings[field].salt)), s.step[field]);
  }));
  section('batches', (list, p) => each(list, p, (b, q) => {
    batch(b, q);
    const { fromSeq, toSeq } = b.header, hashes = f.steps.slice(fromSeq, toSeq + 1).map((s) => s.stepHash);
    check(`${q}.header.root`, merkleRoot(hashes), b.header.root);
    check(`${q}.header.head`, hashes.at(-1), b.header.head);
    check(`${q}.header.prevHead`, f.steps[fromSeq].step.prev, b.header.prevHead);
    check(`${q}.header`, attempt(() => checkHeader(b.header)), b.header);
  }));
  section('signatureForms', (v, p) => {
    const signer = (s) => attempt(() => batchSigner({ header: v.header, scheme: 'eip712', signature: s.signature }));
    each(v.accept, `${p}.accept`, (s, q) => { check(q, signer(s), v.header.agent); check(`${q} kept form`, decodeSignature(s.signature).signature, v.accept[0].signature); });
    each(v.reject, `${p}.reject`, (s, q) => check(q, signer(s), 'SIGNATURE'));
  });
  covered.add('equivocations').add('brokenChain').add('disclosures').add('tampered');
  for (const [i, e] of f.equivocations.entries()) {
    const p = `flight.equivocations[${i}]`, evidence = { type: 'karatum.equivocation.v1', reason: e.reason, a: statement(e.a), b: statement(e.b) };
    batch(e.a, `${p}.a`);
    batch(e.b, `${p}.b`);
    check(`${p}.reason`, conflict(e.a.header, e.b.header), e.reason);
    check(`${p} swapped`, conflict(e.b.header, e.a.header), e.reason);
    check(`${p} as evidence`, (await verifyEquivocation(evidence)).ok, true);
  }
  section('notEquivocations', (list, p) => each(list, p, (e, q) => { batch(e.a, `${q}.a`); batch(e.b, `${q}.b`); check(q, conflict(e.a.header, e.b.header), null); }));
  section('impossible', (list, p) => each(list, p, (e, q) => { let field = null; try { checkHeader(e.header); } catch (err) { field = err.field; } check(`${q}.field`, field, e.field); }));
  check('flight.brokenChain', (await verifyEquivocation(f.brokenChain)).ok, true);
  for (const [i, d] of f.disclosures.entries()) check(`flight.disclosures[${i}]`, (await verifyDisclosure(d)).code, null);
  for (const [i, t] of f.tampered.entries()) check(`flight.tampered[${i}] ${t.why}`, (await verifyDisclosure(t.disclosure)).code, t.code);
  section('receipt', (r, p) => {
    const v = Object.fromEntries(r.text.split('\n').slice(1).map((l) => l.split(': ')).map(([k, x]) => [k, k === 'batchId' ? x : Number(x)]));
    check(`${p}.text`, receiptText(v), r.text);
    check(`${p}.node`, addressOfKey(r.nodeKey), r.node);
    check(`${p}.signature`, signDigest(r.nodeKey, textDigest(r.text)), r.signature);
    check(p, attempt(() => verifyReceipt({ ...v, node: r.node, signature: r.signature })), r.node);
  });
  section('receiptGroup', (g, p) => {
    check(`${p}.items`, g.texts.map((t) => keccak(t)), g.items);
    check(`${p}.root`, merkleRoot(g.items), g.root);
    check(`${p}.proofs`, g.items.map((_, i) => merkleProof(g.items, i)), g.proofs);
    check(`${p}.text`, receiptGroupText({ root: g.root, size: g.items.length }), g.text);
    check(`${p}.signature`, attempt(() => recover(textDigest(g.text), g.signature)), f.receipt.node);
  });
  section('merkle', (list, p) => each(list, p, (t, q) => {
    check(`${q}.root`, merkleRoot(t.items), t.root);
    each(t.proofs, `${q}.proofs`, (proof, r) => {
      check(r, merkleProof(t.items, proof.index), proof);
      check(`${r} folded`, attempt(() => foldProof(t.items[proof.index], proof.index, proof.size, proof.siblings).root), t.root);
    });
  }));
  section('epoch', (e, p) => {
    check(`${p}.root`, merkleRoot(e.batchIds), e.root);
    check(`${p}.proofs`, e.batchIds.map((_, i) => merkleProof(e.batchIds, i)), e.proofs);
    check(`${p}.schema`, SCHEMA, e.schema);
    check(`${p}.schemaUid`, SCHEMA_UID, e.schemaUid);
    check(`${p}.attestationData`, attestationData(e.root, e.batchIds.length), e.attestationData);
    check(`${p}.attestCalldata`, attestCalldata(e.root, e.batchIds.length), e.attestCalldata);
  });
  for (const [i, proof] of f.epoch.proofs.entries()) {
    const anchoring = { batchId: f.epoch.batchIds[i], epoch: { root: f.epoch.root, batchCount: f.epoch.batchIds.length }, proof, anchor: null };
    check(`flight.epoch.proofs[${i}] verified`, (await verifyEpochProof(anchoring)).ok, true);
  }
  section('ratings', (list, p) => each(list, p, (r, q) => check(q, rating(r.confirmed, r.contradicted), r.rating)));

  const notCovered = [...Object.keys(f).filter((k) => !covered.has(k)).map((k) => `flight.${k}`), ...Object.keys(vectors).filter((k) => !['note', 'spec', 'canonicalJson', 'flight'].includes(k))];
  check('spec', SPEC, vectors.spec);
  for (const name of notCovered) print(`not covered: ${name}`);
  print(`${passed} passed, ${failed} failed`);
  return { passed, failed, notCovered };
}

/** Verifies whatever the document is: disclosure, alone or joined with the proof of its batch as {disclosure, proof}, equivocation, or the anchoring of a batch. */
export async function verify(input, options = {}) {
  let v;
  try { v = read(input); } catch (e) { return refused(e); }
  if (isObject(v) && has(v, 'disclosure')) return verifyDisclosure(v.disclosure, { ...options, anchoring: v.proof });
  if (isObject(v) && has(v, 'type')) return verifyEquivocation(v, options);
  if (isObject(v) && has(v, 'epoch')) return options.rpc ? verifyAnchor(v, options) : verifyEpochProof(v);
  return verifyDisclosure(v, options);
}

const MARK = { pass: 'ok  ', fail: 'FAIL', skip: '-   ', partial: '?   ' };

async function main([command, file, ...rest]) {
  const flags = {};
  while (rest.length >= 2 && /^--(rpc|attester)$/.test(rest[0])) flags[rest.shift().slice(2)] = rest.shift();
  if (!['conformance', 'verify'].includes(command) || !file || rest.length) {
    console.error('usage: karatum-flight.mjs verify FILE [--rpc URL] [--attester ADDRESS]\n       karatum-flight.mjs conformance VECTORS');
    return 2;
  }
  const bytes = (await import('node:fs')).readFileSync(file);
  if (command === 'conformance') return (await conformance(parse(bytes, DOCUMENT_DEPTH))).failed ? 1 : 0;
  const result = await verify(bytes, flags);
  for (const row of result.rows) console.log(`${MARK[row.state]} ${row.id.padEnd(14)}${row.why || row.got || ''}`);
  console.log(result.ok ? (result.complete ? 'all checks passed' : 'no check failed; not every check could run') : `refused: ${result.code}: ${result.why ?? result.rows.find((r) => r.state === 'fail').why}`);
  return result.ok ? 0 : 1;
}

const script = globalThis.process?.argv?.[1];
if (script?.endsWith('.mjs')) {
  const [{ pathToFileURL }, { realpathSync }] = [await import('node:url'), await import('node:fs')];
  if (import.meta.url === pathToFileURL(realpathSync(script)).href) {
    process.exitCode = await main(process.argv.slice(2)).catch((e) => { console.error(`karatum-flight: ${e.message}`); return 2; });
  }
}

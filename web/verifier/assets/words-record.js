// What the rows say of a step's record.

import { hash, plural, SAYS, scheme } from './words.js';

Object.assign(SAYS, {
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
});

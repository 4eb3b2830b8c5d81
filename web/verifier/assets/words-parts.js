// What the rows say of batches and receipts.

import { hash, SAYS, scheme } from './words.js';

const utc = (seconds) => seconds < 253402300800 ? new Date(seconds * 1000).toISOString().replace('T', ' ').replace('.000Z', ' UTC') : String(seconds);

Object.assign(SAYS, {
  batch: (r) => [`${scheme(r.scheme)} recovers `, hash(r.got)],
  receipt: (r) => ['node ', hash(r.got), ` took it in at position ${r.position} and promised to anchor it by ${utc(r.anchorBy)}`],
  same: (r) => ['every part is of batch ', hash(r.got)],
});

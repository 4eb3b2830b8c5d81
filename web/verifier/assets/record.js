// ==== The record of a page: everything above are parts of /sdk/karatum-flight.mjs

/** Checks a disclosure, or {disclosure, proof}, the latter where the batch is anchored. */
export async function examine(text, onCheck) {
  try {
    const v = parse(text, DOCUMENT_DEPTH + 1);
    const { disclosure, proof } = has(v, 'step') ? { disclosure: v } : shape(v, { disclosure: object, proof: object }, { optional: ['proof'] });
    return await verifyDisclosure(disclosure, { onCheck, anchoring: proof });
  } catch (e) { return refused(e); }
}

// ==== The record of a page: everything above is the first part of /sdk/karatum-flight.mjs

/** Checks {disclosure, proof}, the latter where the batch is anchored. */
export async function examine(text, onCheck) {
  try {
    const { disclosure, proof } = parse(text, DOCUMENT_DEPTH + 1);
    return await verifyDisclosure(disclosure, { onCheck, anchoring: proof });
  } catch (e) { return refused(e); }
}

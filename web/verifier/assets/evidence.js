// ==== The evidence of a page: everything above are parts of /sdk/karatum-flight.mjs

export const examine = async (text, onCheck) => verifyEquivocation(text, { onCheck });

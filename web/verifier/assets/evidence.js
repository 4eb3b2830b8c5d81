// ==== The evidence of a page: everything above is a part of /sdk/karatum-flight.mjs

export const examine = async (text, onCheck) => verifyEquivocation(text, { onCheck });

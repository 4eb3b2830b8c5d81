// Runs the checks, wherever they run.

/** How often the page asked for something since a moment, by the browser's own entries. */
export const requestsSince = (start) => performance.getEntriesByType('resource').filter((e) => e.startTime >= start).length;

/**
 * Resolves to check(text, onRow) of what runs the checks, to which connect(hear) resolves: `send` takes a message, and `where` is
 * "worker", "page", or "blocked" where the browser refuses to start a worker. check resolves to the verifier's result with `where`,
 * and `ms` and `requests` as measured, the latter of the page and of the worker.
 */
export async function makeEngine(connect) {
  const runs = new Map(), { send, where } = await connect((m) => m.row ? runs.get(m.id).onRow(m.row) : runs.get(m.id).resolve(m));
  let number = 0;
  return async (text, onRow) => {
    const id = ++number, start = performance.now();
    const { done, requests } = await new Promise((resolve) => { runs.set(id, { onRow, resolve }); send({ id, text }); });
    runs.delete(id);
    return { ...done, ms: performance.now() - start, requests: requestsSince(start) + (where === 'worker' ? requests : 0), where };
  };
}

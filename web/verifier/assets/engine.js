// Runs the checks: in a worker, or in the page where a worker is blocked.

const START_MS = 10000;

/** Starts the worker and resolves once it says that it is ready. The one policy of Trusted Types lets nothing but its address become a script. */
function startWorker(url, hear) {
  return new Promise((resolve, reject) => {
    const own = new URL(url, location.href).href, createScriptURL = () => own;
    const worker = new Worker(globalThis.trustedTypes?.createPolicy('app', { createScriptURL }).createScriptURL(own) ?? own, { type: 'module' });
    const stop = () => { worker.terminate(); reject(); }, timer = setTimeout(stop, START_MS);
    worker.onerror = stop;
    worker.onmessage = ({ data }) => {
      if (data.id) return hear(data);
      clearTimeout(timer);
      return resolve((message) => worker.postMessage(message));
    };
  });
}

/** How often the page asked for something since a moment, by the browser's own entries. */
export const requestsSince = (start) => performance.getEntriesByType('resource').filter((e) => e.startTime >= start).length;

/**
 * Starts what runs the checks and resolves to check(text, onRow). That resolves to the verifier's result with `ms` and `requests`
 * as measured, the latter of the page and of the worker, and `where`: "worker", "page" without a worker's `url`, or "blocked" where
 * the browser refuses to start it. `load` gives the worker's module for use in the page.
 */
export async function startEngine(url, load) {
  const runs = new Map(), hear = (m) => m.row ? runs.get(m.id).onRow(m.row) : runs.get(m.id).resolve(m);
  let send = url && await startWorker(url, hear).catch(() => null), number = 0;
  const where = send ? 'worker' : url ? 'blocked' : 'page';
  send ||= (await load()).serve(hear);
  return async (text, onRow) => {
    const id = ++number, start = performance.now();
    const { done, requests } = await new Promise((resolve) => { runs.set(id, { onRow, resolve }); send({ id, text }); });
    runs.delete(id);
    return { ...done, ms: performance.now() - start, requests: requestsSince(start) + (where === 'worker' ? requests : 0), where };
  };
}

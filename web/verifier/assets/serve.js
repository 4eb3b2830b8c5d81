// ==== The worker. It opens no connection: the policy that comes with this file forbids that.

const entries = () => performance.getEntriesByType('resource').length;

/** Answers the messages of a page, {id, text}, through `post`: each row as it is done, then the result. */
export const serve = (post) => async ({ id, text }) => {
  const before = entries();
  const done = await examine(text, (row) => post({ id, row })).catch((e) => ({ ok: false, code: 'INTERNAL', rows: [], why: String(e) }));
  post({ id, done, requests: entries() - before });
};

if (globalThis.DedicatedWorkerGlobalScope) {
  const take = serve(postMessage);
  onmessage = (e) => take(e.data);
  postMessage({});
}

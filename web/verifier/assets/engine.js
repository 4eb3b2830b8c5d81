// Runs the checks: in a worker, or in the page where a worker is blocked.

/** The one policy of Trusted Types here: it lets nothing but the worker's own address become a script. */
function trustedWorker(url) {
  if (!globalThis.trustedTypes) return url;
  const own = new URL(url, location.href).href;
  return trustedTypes.createPolicy('app', {
    createScriptURL: (u) => new URL(u, location.href).href === own ? u : (() => { throw new TypeError('not the worker'); })(),
  }).createScriptURL(url);
}

const START_MS = 10000;

/** Starts the worker and resolves once it says that it is ready. */
function startWorker(url, onMessage) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(trustedWorker(url), { type: 'module', name: 'verifier' });
    const stop = (why) => { worker.terminate(); reject(new Error(why)); }, timer = setTimeout(stop, START_MS, 'the worker does not start');
    worker.onerror = () => { clearTimeout(timer); stop('the worker is blocked'); };
    worker.onmessage = ({ data }) => {
      if (!data.ready) return onMessage(data);
      clearTimeout(timer);
      return resolve((message) => worker.postMessage(message));
    };
  });
}

const requestsSince = (start) => performance.getEntriesByType('resource').filter((e) => e.startTime >= start).length;
const settled = () => new Promise((resolve) => setTimeout(resolve));

/**
 * Starts what runs the checks and resolves to check(document, {rpc, attester, onRow}). That resolves to the verifier's result
 * with `ms` and `requests` as measured, the latter from the browser's own Performance entries of the page and of the worker,
 * and `where`: "worker", "page" without a worker's `url`, or "blocked" where the browser refuses to start it. `load` gives the
 * worker's module for use in the page.
 */
export async function startEngine({ url, load }) {
  const runs = new Map();
  let send, where = 'worker', number = 0, workerRequests = 0;
  const onMessage = async (m) => {
    const run = runs.get(m.id);
    if (!run) return;
    if (m.row) run.onRow(m.row);
    if (m.done) { runs.delete(m.id); run.resolve(m); }
    if (!m.call) return;
    try {
      send({ answer: m.call, result: await run.ask(m.method, m.params) });
    } catch (e) { send({ answer: m.call, error: e.message }); }
  };
  try {
    if (!url) throw new Error('no worker here');
    send = await startWorker(url, onMessage);
  } catch {
    where = url ? 'blocked' : 'page';
    send = (await load()).serve(onMessage);
  }

  async function check(document, { rpc = '', attester, onRow = () => {} } = {}) {
    const rpcState = { failed: '' }, id = ++number, start = performance.now();
    const { done, requests } = await new Promise((resolve) => {
      runs.set(id, { onRow, resolve, ask: (method, params) => askRPC(rpc, method, params, rpcState) });
      send({ id, document, rpc: Boolean(rpc), attester });
    });
    const ms = performance.now() - start;
    if (rpc) await settled(); // the last answer's entry
    const own = where === 'worker' ? requests - workerRequests : 0;
    if (where === 'worker') workerRequests = requests;
    return { ...unasked(done, rpcState.failed), ms, requests: requestsSince(start) + own, where };
  }
  return check;
}

/** An RPC that gives no answer leaves its check open: that refutes nothing. */
function unasked(done, reason) {
  if (!reason) return done;
  const rows = done.rows.map((r) => r.id === 'anchor' && r.state === 'fail' ? { ...r, state: 'skip', codes: [], code: null, why: `this RPC could not be asked: ${reason}` } : r);
  return { ...done, rows, ok: rows.every((r) => r.state !== 'fail'), code: rows.find((r) => r.code)?.code ?? null };
}

const RPC_MS = 15000;

/** Whether the page's policy lets it ask this address. */
export function rpcAddress(text) {
  let url;
  try { url = new URL(text.trim()); } catch { return null; }
  const local = url.protocol === 'http:' && /^(localhost|127\.0\.0\.1)$/.test(url.hostname);
  return (url.protocol === 'https:' || local || url.origin === location.origin) && !url.username ? url.href : null;
}

/** One JSON-RPC call. That an RPC cannot be asked says nothing about the record, so it is kept apart from what it answers. */
async function askRPC(url, method, params, state) {
  try {
    const answer = await fetch(url, {
      method: 'POST', redirect: 'error', credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', signal: AbortSignal.timeout(RPC_MS),
      headers: { 'content-type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    const { result, error } = await answer.json();
    if (error || result === undefined) throw new Error(error?.message ?? `status ${answer.status}`);
    return result;
  } catch (e) {
    state.failed ||= e.name === 'TimeoutError' ? 'no answer within 15 s' : e instanceof TypeError ? 'no connection, or it does not let pages ask it (CORS)' : String(e.message).slice(0, 200);
    throw e;
  }
}

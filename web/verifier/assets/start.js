// Starts a file that checks: as a worker, or in the page where workers are blocked.

import { makeEngine } from './engine.js';

const START_MS = 10000;

// The one policy of Trusted Types lets nothing but the files that the page names become a script.
const named = Array.from(document.querySelectorAll('a[data-checks]'), (a) => a.href);
const policy = globalThis.trustedTypes?.createPolicy('app', { createScriptURL: (url) => named.find((own) => own === url) });

/** Starts the worker and resolves to what sends to it, once it says that it is ready. */
const startWorker = (url, hear) => new Promise((resolve, reject) => {
  const worker = new Worker(policy?.createScriptURL(url) ?? url, { type: 'module' });
  const stop = () => { worker.terminate(); reject(); }, timer = setTimeout(stop, START_MS);
  worker.onerror = stop;
  worker.onmessage = ({ data }) => {
    if (data.id) return hear(data);
    clearTimeout(timer);
    return resolve((message) => worker.postMessage(message));
  };
});

/** The engine of a file that the page names. */
export const startEngine = (url) => makeEngine(async (hear) => {
  const send = await startWorker(url, hear).catch(() => null);
  return send ? { send, where: 'worker' } : { send: (await import(url)).serve(hear), where: 'blocked' };
});

// Asks an RPC about the anchor, at the reader's word: the page asks, and the file for that checks what it hears.

import { requestsSince } from './engine.js';

const RPC_MS = 15000;

/** Reads the form and asks, once everything else is checked again: a forged copy may have been on show. */
export async function ask(panel, form) {
  const [input, who, wrong] = ['[name="rpc"]', '[name="attester"]', '[data-wrong]'].map((s) => form.querySelector(s)), attester = who.value.trim().toLowerCase();
  const rpc = rpcAddress(input.value), bad = !rpc ? 'The address must begin with https://, or with http://localhost or http://127.0.0.1.'
    : attester && !/^0x[0-9a-f]{40}$/.test(attester) ? 'The attester must be an address: 0x and 40 hex digits.' : '';
  wrong.textContent = bad;
  wrong.hidden = !bad;
  if (bad) return (rpc ? who : input).focus();
  const { verifyAnchor } = await import(panel.one('a[data-checks="anchor"]').href);
  const told = await panel.show(panel.text);
  if (!told) return null;
  const text = panel.text, document = JSON.parse(text), start = performance.now();
  panel.header('running', 'Asking…', '');
  const { rows } = await askAnchor(verifyAnchor, document.proof ?? document, rpc, attester);
  await new Promise((resolve) => { setTimeout(resolve); }); // the last answer's entry
  if (panel.text !== text || panel.last !== told) return null;
  const anchor = rows.find((r) => r.id === 'anchor');
  return panel.report({ ...told, rows: told.rows.map((r) => r.id === 'anchor' ? anchor : r), ms: performance.now() - start, requests: requestsSince(start) }, document);
}

/** Whether the page's policy lets it ask this address. */
function rpcAddress(text) {
  let url;
  try { url = new URL(text.trim()); } catch { return null; }
  const local = url.protocol === 'http:' && /^(localhost|127\.0\.0\.1)$/.test(url.hostname);
  return (url.protocol === 'https:' || local || url.origin === location.origin) && !url.username ? url.href : null;
}

/** Asks about an anchor. An RPC that gives no answer leaves its check open: that refutes nothing. */
async function askAnchor(verifyAnchor, proof, url, attester) {
  let silent = '';
  const rpc = async (method, params) => {
    try {
      const answer = await fetch(url, {
        method: 'POST', redirect: 'error', credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', signal: AbortSignal.timeout(RPC_MS),
        headers: { 'content-type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      const { result, error } = await answer.json();
      if (error || result === undefined) throw new Error(error?.message ?? `status ${answer.status}`);
      return result;
    } catch (e) {
      silent ||= e.name === 'TimeoutError' ? 'no answer within 15 s' : e instanceof TypeError ? 'no connection, or it does not let pages ask it (CORS)' : String(e.message).slice(0, 200);
      throw e;
    }
  };
  const result = await verifyAnchor(proof, { rpc, attester: attester || undefined });
  const open = (r) => r.id === 'anchor' && r.state === 'fail' && silent ? { ...r, state: 'skip', codes: [], code: null, why: `this RPC could not be asked: ${silent}` } : r;
  return { ...result, rows: result.rows.map(open) };
}

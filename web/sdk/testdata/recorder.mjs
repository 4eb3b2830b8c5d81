// Drives karatum-flight.mjs: one command a line in, {result, errors} a line out.
import { createInterface } from 'node:readline';
import * as k from '../karatum-flight.mjs';

let recorder, clock = null, errors = [], messages = [];
const told = (e) => messages.push(e.message) && errors.push([e.code, e.field ?? '', e.evidence ? 'evidence' : ''].join(' ').trim());

const commands = {
  async open({ journal, fsync, clock: start, ...options }) {
    clock = start ?? null;
    if (journal) options.journal = await k.FileJournal.open(journal, { fsync });
    recorder = await k.Recorder.open({ ...options, now: () => clock ?? Date.now(), onError: told });
    return { address: recorder.address, stream: recorder.stream, waiting: recorder.waiting };
  },
  clock: ({ ms }) => { clock = ms; },
  record: ({ step }) => recorder.record(step),
  recordUnusable: () => recorder.record({ args: { big: 1n }, result: { cycle: (() => { const c = []; c.push(c); return c; })() }, claim: 7, name: '', txHash: '0x1', at: 1760000000000 }),
  flush: () => recorder.flush(),
  disclose: (request) => recorder.disclose(request),
  status: () => ({ stream: recorder.stream, waiting: recorder.waiting, node: recorder.nodeAddress }),
  close: () => recorder.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line);
  let result;
  try { result = await commands[name](args); } catch (e) { result = { thrown: e.code ?? String(e) }; }
  console.log(JSON.stringify({ result: result ?? null, errors, messages }));
  errors = [];
  messages = [];
}
process.exit(0);

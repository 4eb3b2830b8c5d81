// Records with the JavaScript SDK as a stranger would: imported from the node.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
const [node, dir, scheme, sdkFile] = process.argv.slice(2);
await writeFile(sdkFile, await (await fetch(`${node}/sdk/karatum-flight.mjs`)).text());
const { Recorder, FileJournal } = await import(sdkFile);
const errors = [];
const recorder = await Recorder.open({
  node, scheme, name: 'js', signer: process.env.AGENT_KEY, journal: await FileJournal.open(join(dir, 'js.jsonl')),
  onError: (e) => errors.push(`${e.code}: ${e.message}`),
});
for (let i = 0; i < 40; i++) {
  await recorder.record({ kind: 'tool', name: 'count', args: { i, text: 'é\u2028' }, result: i / 3 });
  if (i % 10 === 9) await recorder.flush();
}
const disclosure = await recorder.disclose({ seq: 7, reveal: ['args', 'result'] });
await recorder.close();
console.log(JSON.stringify({ agent: recorder.address, stream: recorder.stream, waiting: recorder.waiting, errors, disclosure }));

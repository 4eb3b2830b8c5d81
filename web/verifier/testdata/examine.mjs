// Examines each line of standard input, a document as a JSON string, with the two workers named, and answers with a line:
// "refused" or the rows and their states, by the worker for any document and by the one for records.
import { readFileSync } from 'node:fs';

const modules = [];
for (const file of process.argv.slice(2)) modules.push(await import(file));
const out = [];
for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (!line) continue;
  const told = [];
  for (const { examine } of modules) {
    const { ok, rows } = await examine(JSON.parse(line), () => {});
    told.push(rows.length ? rows.map((r) => `${r.id}:${r.state}`).join(' ') : 'refused');
    if (ok !== (rows.length > 0 && rows.every((r) => r.state !== 'fail'))) told.push('ok is not what the rows say');
  }
  out.push(told.join('|'));
}
console.log(out.join('\n'));

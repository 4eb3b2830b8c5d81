// Examines each line of standard input, a document as a JSON string, with each of the workers named after the module that tells
// kinds apart, and answers with a line: the kind, and of each worker "refused" or the rows and their states.
import { readFileSync } from 'node:fs';

const [{ kindOf }, ...workers] = await Promise.all(process.argv.slice(2).map((file) => import(file)));
const out = [];
for (const line of readFileSync(0, 'utf8').split('\n')) {
  if (!line) continue;
  const text = JSON.parse(line), told = [kindOf(text)];
  for (const { examine } of workers) {
    const { ok, rows } = await examine(text, () => {});
    told.push(rows.length ? rows.map((r) => `${r.id}:${r.state}`).join(' ') : 'refused');
    if (ok !== (rows.length > 0 && rows.every((r) => r.state !== 'fail'))) told.push('ok is not what the rows say');
  }
  out.push(told.join('|'));
}
console.log(out.join('\n'));

// The verify panel: one row a check, and a header that says what was measured.

import { plural, says, visible } from './words.js';

const STATE = { wait: 'not run yet', run: 'running', pass: 'passed', fail: 'failed', skip: 'not run', partial: 'passed in part' };
const MARK = { pass: 'M14 24l6.5 6.5L33 17', fail: 'M16 16l14 14M30 16L16 30', partial: 'M23 13v13M23 32v.5', idle: 'M15 23h16' };
const inMs = (ms) => ms < 1 ? '<1 ms' : `${Math.round(ms)} ms`;

/**
 * A panel over its markup, with check(text, onRow) of the engine. `lay` puts the rows of a result in place where they are not known
 * before. show() checks a document and resolves to the result, or to null where another run began meanwhile.
 */
export function makePanel(root, check, lay = () => {}) {
  const one = (selector) => root.querySelector(selector), all = (selector) => root.querySelectorAll(selector);
  const row = (id) => one(`.checks [data-check="${id}"]`), rpc = one('.rpc'), forge = one('.forge');
  const panel = { root, text: '', last: null, one, all, row, run, report, show, header, settle };
  let runs = 0, tools;

  function header(state, title, sub) {
    root.dataset.state = state;
    one('[data-mark]').setAttribute('d', MARK[state] ?? MARK.idle);
    one('[data-title]').textContent = title;
    one('[data-sub]').textContent = sub;
  }

  /** Shows a row's state and what it computed. */
  function paint(li, r, said = []) {
    li.dataset.s = r.state;
    li.querySelector('.state').textContent = STATE[r.state];
    li.querySelector('.ms').textContent = r.state === 'skip' ? STATE.skip : r.ms >= 0 ? inMs(r.ms) : '';
    li.querySelector('.ev').replaceChildren(...said);
  }
  const paintAll = (state) => { for (const li of all('.checks > li')) paint(li, { state }); };

  /** The form that asks an RPC stands in the row that it is about. */
  function settle() { if (rpc) row('anchor')?.append(rpc); }

  async function run(text, found) {
    const number = ++runs;
    header('running', 'Checking…', '');
    paintAll('run');
    const result = await check(text, (r) => { if (number === runs && row(r.id)) paint(row(r.id), r); });
    if (number !== runs) return null;
    report(result, JSON.parse(result.rows.length ? text : '0'), found);
    return result;
  }

  /** Shows a result, and once more when the tools are there that explain what failed. */
  function report(result, document, found = 'Found') {
    const { rows, ms, requests, where } = result, of = (s) => rows.filter((r) => r.state === s), failed = of('fail'), passed = of('pass').length, partial = of('partial').length;
    panel.last = result;
    if (!rows.length) { paintAll('wait'); return header('fail', 'This cannot be checked', visible(result.why)); }
    lay(rows);
    for (const r of rows) paint(row(r.id), r, says(r, document, panel.fails));
    const how = `${where === 'blocked' ? 'in this page, for workers are blocked here, ' : ''}in ${inMs(ms)}, with ${plural(requests, 'request')}.`;
    if (failed.length && !panel.fails) equipped().then(() => { if (panel.last === result) report(result, document, found); }, () => {});
    return failed.length ? header('fail', `Rejected: ${failed.length} of ${plural(rows.length, 'check')} failed`, `${found} ${how}${panel.unsigned?.(failed) ?? ''}`)
      : header(partial ? 'partial' : passed ? 'pass' : 'idle', rows.every((r) => ['a', 'b', 'contradiction'].includes(r.id)) ? 'Proven: the agent signed both'
        : passed === rows.length ? `All ${passed} checks passed` : `${passed} of ${rows.length} checks passed${partial ? `, ${partial} in part` : ''}`, `Done by your browser ${how}`);
  }

  async function show(text, file = panel.file) {
    Object.assign(panel, { text, file });
    panel.clean?.();
    const result = await run(text);
    if (!result?.rows.length) return result;
    const document = JSON.parse(text);
    one('[data-again]').hidden = false;
    if (rpc) rpc.hidden = !(document.proof ?? document).anchor;
    if (forge) forge.hidden = !row('reveal');
    for (const li of all('.indep li')) li.hidden = false;
    panel.offer?.();
    return result;
  }

  one('[data-again]').addEventListener('click', () => show(panel.text));
  for (const button of all('[data-take]')) button.hidden = false;
  settle();
  // What works at the reader's word is loaded when a pointer or the focus comes near it, or when a check fails. Who is faster is heard again.
  function equipped() { return tools ??= import('./tools.js').then((t) => t.equip(panel)); }
  async function near(e) {
    if (panel.offer) return;
    if (e.type === 'submit' || e.type === 'click') e.preventDefault();
    await equipped();
    if (e.type === 'submit') e.target.requestSubmit();
    if (e.type === 'click') e.target.closest('a, button')?.click();
  }
  for (const part of all('.rpc, .forge, .indep')) for (const type of ['pointerover', 'focusin', 'click', 'submit']) part.addEventListener(type, near);
  return panel;
}
